package pgtest

// Programs returns the folder of the server's programs, initdb and postgres among them.
func Programs() (string, error) { return locate() }
