package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"log"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// transactions does what the first argument says:
//
//	franz_go write BOOTSTRAP TOPIC TRANSACTIONAL_ID   commits c0, c2 ... c8 and aborts a1, a3 ... a9, in two partitions
//	franz_go read BOOTSTRAP TOPIC COUNT               prints so many committed values, and what comes within a second
//	franz_go transform BOOTSTRAP SOURCE TARGET GROUP TRANSACTIONAL_ID   in upper case, exactly once, until it is killed
func transactions(arguments []string) {
	servers := kgo.SeedBrokers(strings.Split(arguments[1], ",")...)
	switch arguments[0] {
	case "write":
		write(servers, arguments[2], arguments[3])
	case "read":
		count, err := strconv.Atoi(arguments[3])
		check(err)
		read(servers, arguments[2], count)
	case "transform":
		transform(servers, arguments[2], arguments[3], arguments[4], arguments[5])
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func write(servers kgo.Opt, topic, id string) {
	ctx := context.Background()
	client, err := kgo.NewClient(
		servers, kgo.TransactionalID(id), kgo.DefaultProduceTopic(topic), kgo.RecordPartitioner(kgo.ManualPartitioner()),
	)
	check(err)
	defer client.Close()
	for number := range 10 {
		check(client.BeginTransaction())
		kind, end := "c", kgo.TryCommit
		if number%2 == 1 {
			kind, end = "a", kgo.TryAbort
		}
		for partition := range int32(2) {
			value := []byte(fmt.Sprintf("%s%d", kind, number))
			check(client.ProduceSync(ctx, &kgo.Record{Value: value, Partition: partition}).FirstErr())
		}
		check(client.EndTransaction(ctx, end))
	}
}

func read(servers kgo.Opt, topic string, count int) {
	client, err := kgo.NewClient(
		servers, kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	)
	check(err)
	defer client.Close()
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	for found, wait := 0, 30*time.Second; ; {
		ctx, cancel := context.WithTimeout(context.Background(), wait)
		fetches := client.PollFetches(ctx)
		cancel()
		fetches.EachRecord(func(record *kgo.Record) { fmt.Fprintln(out, string(record.Value)) })
		found += fetches.NumRecords()
		if fetches.NumRecords() == 0 {
			return
		}
		if found >= count {
			wait = time.Second
		}
	}
}

func transform(servers kgo.Opt, source, target, group, id string) {
	ctx := context.Background()
	session, err := kgo.NewGroupTransactSession(
		servers, kgo.TransactionalID(id), kgo.TransactionTimeout(10*time.Second), kgo.ConsumerGroup(group),
		kgo.ConsumeTopics(source), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.RequireStableFetchOffsets(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.SessionTimeout(6*time.Second),
		kgo.HeartbeatInterval(500*time.Millisecond), kgo.DefaultProduceTopic(target),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.FetchMaxWait(200*time.Millisecond),
	)
	check(err)
	for {
		fetches := session.PollRecords(ctx, 100)
		fetches.EachError(func(_ string, _ int32, err error) { log.Println("fetch:", err) })
		if fetches.NumRecords() == 0 {
			continue
		}
		check(session.Begin())
		sent := kgo.AbortingFirstErrPromise(session.Client())
		fetches.EachRecord(func(record *kgo.Record) {
			made := &kgo.Record{Value: bytes.ToUpper(record.Value), Partition: record.Partition}
			session.Produce(ctx, made, sent.Promise())
		})
		_, err := session.End(ctx, sent.Err() == nil)
		check(err)
	}
}
