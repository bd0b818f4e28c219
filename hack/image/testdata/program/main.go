// Command program stands in for the product: it uses what would link a C library in if the build let it.
package main

import (
	"fmt"
	"net"
	"os/user"
)

var version = "unset"

func main() {
	_, _ = net.LookupHost("localhost")
	_, _ = user.Current()

	fmt.Println("program", version)
}
