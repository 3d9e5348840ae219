package program

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// Times of the programs that tests/conformance judges, in milliseconds, as in its programs/conversation.py.
const (
	TimeoutMs        = 20_000
	SessionTimeoutMs = 6_000
	HeartbeatMs      = 300
	PollMs           = 200
)

// Conform is what a program is told: its role, the brokers, and a name for topic, group, transactional id and client id.
type Conform struct {
	Role    string
	Servers []string
	Name    string
}

// Transactional says whether the producer has a transactional id.
func (c Conform) Transactional() bool {
	return c.Role == "transactional" || c.Role == "offsets"
}

// Sender is a producer of partition 0.
type Sender interface {
	// Send sends values together and returns the outcome of each.
	Send(values []string) []error
	Begin() error
	// SendOffset commits an offset of the group in the transaction.
	SendOffset(next int64) error
	End(commit bool) error
	Close()
}

// Record is what a member has read.
type Record struct {
	Offset int64
	Value  string
}

func conform(client Client, arguments []string) {
	told := Conform{Role: arguments[0], Servers: strings.Split(arguments[1], ","), Name: arguments[2]}
	if told.Role == "member" {
		ctx, leave := context.WithCancel(context.Background())
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			leave()
		}()
		client.Conform(ctx, told)
		return
	}
	sender, err := client.NewSender(told)
	Check(err)
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		values := strings.Fields(lines.Text())
		if told.Transactional() {
			transact(sender, values, told.Role == "offsets")
			continue
		}
		for place, err := range sender.Send(values) {
			if err == nil {
				TellOutcome("acknowledged", values[place:place+1], "")
			} else {
				TellOutcome("refused", values[place:place+1], err.Error())
			}
		}
	}
	sender.Close()
}

func transact(sender Sender, values []string, withOffset bool) {
	err := write(sender, values, withOffset)
	if err == nil {
		TellOutcome("acknowledged", values, "")
	} else if aborting := sender.End(false); aborting == nil {
		TellOutcome("aborted", values, err.Error())
	} else {
		TellOutcome("refused", values, fmt.Sprintf("%v; then abort: %v", err, aborting))
	}
}

func write(sender Sender, values []string, withOffset bool) error {
	if err := sender.Begin(); err != nil {
		return err
	}
	for _, err := range sender.Send(values) {
		if err != nil {
			return err
		}
	}
	if withOffset {
		last, err := strconv.ParseInt(values[len(values)-1], 10, 64)
		Check(err)
		if err := sender.SendOffset(last + 1); err != nil {
			return err
		}
	}
	return sender.End(true)
}

// ReadAndCommit tells what was read, commits it and tells the outcome.
func ReadAndCommit(records []Record, commit func(next int64) error) {
	if len(records) == 0 {
		return
	}
	values := []string{}
	for _, record := range records {
		values = append(values, record.Value)
	}
	TellOutcome("read", values, "")
	if err := commit(records[len(records)-1].Offset + 1); err != nil {
		TellOutcome("refused", values, err.Error())
	} else {
		TellOutcome("committed", values, "")
	}
}

// TellOutcome prints an event about values, which are numbers.
func TellOutcome(event string, values []string, failure string) {
	numbers := []int{}
	for _, value := range values {
		number, err := strconv.Atoi(value)
		Check(err)
		numbers = append(numbers, number)
	}
	line, err := json.Marshal(map[string]any{"event": event, "values": numbers, "error": failure})
	Check(err)
	fmt.Println(string(line))
}
