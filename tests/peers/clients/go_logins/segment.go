package main

import (
	"context"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/segmentio/kafka-go/sasl/scram"
)

// segment returns when kafka-go has read the value; any error ends the program.
func segment(ctx context.Context, login Login) {
	mechanism := segmentMechanism(login)
	writer := &kafka.Writer{
		Addr: kafka.TCP(login.Bootstrap), Topic: login.Topic, BatchTimeout: time.Millisecond, MaxAttempts: 1,
		RequiredAcks: kafka.RequireAll, Transport: &kafka.Transport{TLS: login.tls(), SASL: mechanism},
	}
	check(writer.WriteMessages(ctx, kafka.Message{Value: []byte(login.Value)}))
	check(writer.Close())
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers: []string{login.Bootstrap}, Topic: login.Topic, Partition: 0, MaxWait: 100 * time.Millisecond,
		Dialer: &kafka.Dialer{Timeout: 10 * time.Second, TLS: login.tls(), SASLMechanism: mechanism},
	})
	defer reader.Close()
	for {
		read, err := reader.ReadMessage(ctx)
		check(err)
		if string(read.Value) == login.Value {
			return
		}
	}
}

func segmentMechanism(login Login) sasl.Mechanism {
	algorithms := map[string]scram.Algorithm{"SCRAM-SHA-256": scram.SHA256, "SCRAM-SHA-512": scram.SHA512}
	if algorithm, found := algorithms[login.Mechanism]; found {
		mechanism, err := scram.Mechanism(algorithm, login.User, login.Password)
		check(err)
		return mechanism
	}
	if login.Mechanism == "PLAIN" {
		return plain.Mechanism{Username: login.User, Password: login.Password}
	}
	return nil
}
