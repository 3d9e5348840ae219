//go:build !containers

package main

import (
	"log"
	"os"
)

func main() {
	if err := loseAnswer(os.Args[1], faults{os.Args[2], os.Args[3]}, os.Args[4]); err != nil {
		log.Fatal(err)
	}
}
