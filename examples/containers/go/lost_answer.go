// The response to a Produce request is lost, and an idempotent producer stores its record once.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
)

// faults is the API of one broker.
type faults struct{ url, token string }

// fault is a named fault, which lasts until end.
type fault struct {
	ID    int `json:"id"`
	Fired int `json:"fired"`
}

func (api faults) ask(method, path, body string) (told fault, err error) {
	request, err := http.NewRequest(method, api.url+path, strings.NewReader(body))
	if err != nil {
		return
	}
	request.Header.Set("Authorization", "Bearer "+api.token)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode >= 400 {
		err = fmt.Errorf("%s", text)
	}
	if err == nil {
		err = json.Unmarshal(text, &told)
	}
	return
}

func (api faults) begin(description string) (fault, error) { return api.ask("POST", "/faults", description) }

func (api faults) end(begun fault) (fault, error) {
	return api.ask("POST", fmt.Sprintf("/faults/%d/end", begun.ID), "")
}

func loseAnswer(bootstrap string, api faults, topic string) error {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(bootstrap), kgo.DefaultProduceTopic(topic), kgo.AllowAutoTopicCreation())
	if err != nil {
		return err
	}
	defer client.Close()
	produce := func(value string) (int64, error) {
		record, err := client.ProduceSync(context.Background(), kgo.StringRecord(value)).First()
		return record.Offset, err
	}
	if _, err := produce("first"); err != nil {
		return err
	}
	begun, err := api.begin(`{"fault": "drop_answer", "api": "Produce", "topic": "` + topic + `"}`)
	if err != nil {
		return err
	}
	offset, err := produce("an order")
	if err != nil {
		return err
	}
	ended, err := api.end(begun)
	if err != nil {
		return err
	}
	fmt.Printf("offset %d, the fault fired %d time\n", offset, ended.Fired)
	next, err := produce("last")
	fmt.Printf("next offset %d\n", next)
	return err
}
