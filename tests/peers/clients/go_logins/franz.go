package main

import (
	"context"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// franz returns when it has read the value; any error ends the program.
func franz(ctx context.Context, login Login) {
	options := []kgo.Opt{
		kgo.SeedBrokers(login.Bootstrap), kgo.DialTLSConfig(login.tls()), kgo.RequestRetries(0), kgo.RecordRetries(0),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{login.Topic: {0: kgo.NewOffset().AtStart()}}),
	}
	if login.Mechanism != "" {
		options = append(options, kgo.SASL(franzMechanism(login)))
	}
	client, err := kgo.NewClient(options...)
	check(err)
	defer client.Close()
	check(client.Ping(ctx))
	record := &kgo.Record{Topic: login.Topic, Value: []byte(login.Value)}
	check(client.ProduceSync(ctx, record).FirstErr())
	for {
		fetches := client.PollFetches(ctx)
		check(fetches.Err())
		for _, read := range fetches.Records() {
			if string(read.Value) == login.Value {
				return
			}
		}
	}
}

func franzMechanism(login Login) sasl.Mechanism {
	scramAuth := scram.Auth{User: login.User, Pass: login.Password, IsToken: login.IsToken}
	switch login.Mechanism {
	case "PLAIN":
		return plain.Auth{User: login.User, Pass: login.Password}.AsMechanism()
	case "SCRAM-SHA-256":
		return scramAuth.AsSha256Mechanism()
	case "SCRAM-SHA-512":
		return scramAuth.AsSha512Mechanism()
	default:
		return oauth.Auth{Token: login.Bearer}.AsMechanism()
	}
}
