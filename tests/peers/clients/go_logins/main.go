// One record written and read back by a client that logs in:
//
//	go_logins franz-go|kafka-go   with a line of JSON on its input; prints the value that it has read
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"time"
)

// Login is how to log in. Without Mechanism there is a client certificate only.
type Login struct {
	Bootstrap, Topic, Value   string
	Mechanism, User, Password string
	IsToken                   bool
	Bearer                    string
	Authority, Certificate    string
}

func (l Login) tls() *tls.Config {
	pem, err := os.ReadFile(l.Authority)
	check(err)
	authorities := x509.NewCertPool()
	if !authorities.AppendCertsFromPEM(pem) {
		check(errors.New("no certificate in " + l.Authority))
	}
	config := &tls.Config{RootCAs: authorities}
	if l.Certificate != "" {
		pair, err := tls.LoadX509KeyPair(l.Certificate, l.Certificate)
		check(err)
		config.Certificates = []tls.Certificate{pair}
	}
	return config
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func main() {
	var login Login
	check(json.NewDecoder(os.Stdin).Decode(&login))
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	roundTrips := map[string]func(context.Context, Login){"franz-go": franz, "kafka-go": segment}
	roundTrips[os.Args[1]](ctx, login)
	fmt.Println(login.Value)
}
