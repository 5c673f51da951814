package supervise

// selfPath is the running executable itself, also when the file at its path was
// replaced by an update.
func selfPath() (string, error) { return "/proc/self/exe", nil }
