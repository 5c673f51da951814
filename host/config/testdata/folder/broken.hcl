provider "two" {
