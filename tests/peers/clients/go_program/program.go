// Package program is what the programs in Go have in common, whatever their client: arguments, the journal of a member,
// and which transactions are written and read.
package program

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"os"
	"strconv"
	"strings"
	"time"
)

// Client is a library of clients at work.
type Client interface {
	// Join is a member until ctx is done, and then leaves.
	Join(ctx context.Context, member *Member)
	Write(servers []string, topic, id string)
	Read(servers []string, topic string)
	Transform(servers []string, source, target, group, id string)
	// NewSender is a producer that tests/conformance judges.
	NewSender(told Conform) (Sender, error)
	// Conform is a member of a group that tests/conformance judges, until ctx is done.
	Conform(ctx context.Context, told Conform)
}

// Main does what the arguments say:
//
//	BOOTSTRAP GROUP TOPIC NAME LOG ASSIGNOR SESSION_TIMEOUT_MS   is a member of a group until its input ends
//	write BOOTSTRAP TOPIC TRANSACTIONAL_ID   see WriteAll
//	read BOOTSTRAP TOPIC   prints the committed values, up to End in each partition
//	transform BOOTSTRAP SOURCE TARGET GROUP TRANSACTIONAL_ID   in upper case, exactly once, until it is killed
//	conform ROLE BOOTSTRAP NAME   see tests/conformance/programs/conversation.py
func Main(client Client) {
	arguments := os.Args[1:]
	if len(arguments) == 7 {
		join(client, arguments)
		return
	}
	if arguments[0] == "conform" {
		conform(client, arguments[1:])
		return
	}
	servers := strings.Split(arguments[1], ",")
	switch arguments[0] {
	case "write":
		client.Write(servers, arguments[2], arguments[3])
	case "read":
		client.Read(servers, arguments[2])
	case "transform":
		client.Transform(servers, arguments[2], arguments[3], arguments[4], arguments[5])
	}
}

// Check ends the program if there is an error.
func Check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// Member is what a member of a group is told, and its journal.
type Member struct {
	Bootstrap, Group, Topic, Name string
	RoundRobin                    bool
	SessionTimeout                time.Duration
	journal                       *os.File
}

func join(client Client, arguments []string) {
	sessionTimeoutMs, err := strconv.Atoi(arguments[6])
	Check(err)
	journal, err := os.OpenFile(arguments[4], os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	Check(err)
	member := &Member{
		Bootstrap: arguments[0], Group: arguments[1], Topic: arguments[2], Name: arguments[3],
		RoundRobin:     arguments[5] == "roundrobin",
		SessionTimeout: time.Duration(sessionTimeoutMs) * time.Millisecond,
		journal:        journal,
	}
	ctx, leave := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		leave()
	}()
	client.Join(ctx, member)
	member.Tell("left", map[string]any{})
}

// Tell writes an event into the journal.
func (m *Member) Tell(event string, fields map[string]any) {
	fields["event"], fields["at_ms"] = event, time.Now().UnixMilli()
	line, err := json.Marshal(fields)
	Check(err)
	_, err = m.journal.Write(append(line, '\n'))
	Check(err)
}

// List is never null in JSON.
func List(partitions []int32) []int32 {
	return append([]int32{}, partitions...)
}

// Partitions is how many are written and read.
const Partitions = 2

// End is the last value of each partition.
const End = "end"

// WriteAll commits c0, c2 ... c8, aborts a1, a3 ... a9, and commits End, each in every partition.
func WriteAll(begin func() error, send func(partition int32, value string) error, end func(commit bool) error) {
	for number := range 11 {
		value, commit := fmt.Sprintf("c%d", number), true
		if number == 10 {
			value = End
		} else if number%2 == 1 {
			value, commit = fmt.Sprintf("a%d", number), false
		}
		Check(begin())
		for partition := range int32(Partitions) {
			Check(send(partition, value))
		}
		Check(end(commit))
	}
}

// PrintUntilEnd prints the values that it is given, and returns when End came from every partition.
func PrintUntilEnd(values <-chan string) {
	for ended := 0; ended < Partitions; {
		select {
		case value := <-values:
			if value == End {
				ended++
			} else {
				fmt.Println(value)
			}
		case <-time.After(30 * time.Second):
			log.Fatal("nothing more came for 30 s")
		}
	}
}
