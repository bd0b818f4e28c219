package client_test

import (
	"context"

	"deadletter.dev/deadletter/client"
)

// address is where the API of the examples is.
func address() string {
	url, err := client.SharedURL()
	if err != nil {
		panic(err)
	}
	return url
}

func newClient() *client.Client {
	api, err := client.New(address())
	if err != nil {
		panic(err)
	}
	return api
}

// bury makes a dead letter.
func bury(ctx context.Context, api *client.Client, queue, reason string) {
	if _, err := api.Enqueue(ctx, queue, client.NewMessage{Payload: []byte("x")}); err != nil {
		panic(err)
	}
	claimed, err := api.Claim(ctx, queue, client.ClaimOptions{})
	if err != nil {
		panic(err)
	}
	report := client.FailureReport{Error: reason, Category: client.Validation, Permanent: true}
	if _, err := api.Fail(ctx, claimed[0].Lease(), report); err != nil {
		panic(err)
	}
}
