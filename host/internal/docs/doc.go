// Package docs holds the tests that keep the pages of docs/ true: that every message
// which the code can print stands on a page of docs/troubleshoot with a remedy, and that no
// link in a page is dead. There is nothing in it to import.
package docs
