// Command go asks a question in a chat, at once and streamed, and prints both
// answers, their usage and their metrics.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/respjson"
)

func main() {
	client := openai.NewClient(
		option.WithBaseURL(cmp.Or(os.Getenv("OPENAI_BASE_URL"), "http://127.0.0.1:8000/v1")),
		option.WithAPIKey(cmp.Or(os.Getenv("OPENAI_API_KEY"), "none")),
	)
	if err := ask(context.Background(), client, os.Getenv("MODEL")); err != nil {
		log.Fatal(err)
	}
}

func ask(ctx context.Context, client openai.Client, model string) error {
	if model == "" {
		models, err := client.Models.List(ctx)
		if err != nil {
			return err
		}
		model = models.Data[0].ID
	}
	question := openai.ChatCompletionNewParams{
		Model:       model,
		Messages:    []openai.ChatCompletionMessageParamUnion{openai.UserMessage("What is the chemical symbol of water?")},
		MaxTokens:   openai.Int(32),
		Temperature: openai.Float(0),
	}

	response, err := client.Chat.Completions.New(ctx, question)
	if err != nil {
		return err
	}
	fmt.Println(response.Choices[0].Message.Content)
	if err := printAccount(response.Usage, response.JSON.ExtraFields); err != nil {
		return err
	}
	fmt.Println()

	// The last chunk then carries usage, and metrics beside it.
	question.StreamOptions.IncludeUsage = openai.Bool(true)
	stream := client.Chat.Completions.NewStreaming(ctx, question)
	defer stream.Close()
	for stream.Next() {
		chunk := stream.Current()
		for _, choice := range chunk.Choices {
			fmt.Print(choice.Delta.Content)
		}
		if chunk.JSON.Usage.Valid() {
			fmt.Println()
			if err := printAccount(chunk.Usage, chunk.JSON.ExtraFields); err != nil {
				return err
			}
		}
	}
	return stream.Err()
}

// printAccount prints what an answer says of itself. The metrics are beyond the
// client's types, which keep such members as they came.
func printAccount(usage openai.CompletionUsage, extra map[string]respjson.Field) error {
	metrics, ok := extra["metrics"]
	if !ok {
		return errors.New("no metrics; start the server with --enable-per-request-metrics")
	}
	var m struct {
		TimeToFirstToken json.Number `json:"time_to_first_token_ms"`
		GenerationTime   json.Number `json:"generation_time_ms"`
		QueueTime        json.Number `json:"queue_time_ms"`
		MeanITL          json.Number `json:"mean_itl_ms"`
		TokensPerSecond  json.Number `json:"tokens_per_second"`
	}
	if err := json.Unmarshal([]byte(metrics.Raw()), &m); err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	fmt.Printf("\n%d prompt tokens, %d completion tokens\n", usage.PromptTokens, usage.CompletionTokens)
	fmt.Printf("%-24s%s\n", "time_to_first_token_ms", m.TimeToFirstToken)
	fmt.Printf("%-24s%s\n", "generation_time_ms", m.GenerationTime)
	fmt.Printf("%-24s%s\n", "queue_time_ms", m.QueueTime)
	fmt.Printf("%-24s%s\n", "mean_itl_ms", m.MeanITL)
	fmt.Printf("%-24s%s\n", "tokens_per_second", m.TokensPerSecond)
	return nil
}
