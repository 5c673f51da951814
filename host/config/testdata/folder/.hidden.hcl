nor is this {
