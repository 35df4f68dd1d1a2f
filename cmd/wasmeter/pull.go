package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/wasmeter/wasmeter/engine/checkpoint"
	"github.com/wasmeter/wasmeter/hub"
)

func newPull(t terminal) *cobra.Command {
	return &cobra.Command{
		Use:   "pull ORG/REPO[:FILE][@REVISION]",
		Short: "Fetch a model from the Hugging Face hub",
		Long: `Fetch a model from the Hugging Face hub into the cache that huggingface_hub keeps,
and print where it is. What is there already is not fetched again, and what was
interrupted goes on. wasmeter serve ORG/REPO does the same before it serves.

FILE is a GGUF file's name or its quantisation, such as Q4_K_M. Without it the
file is Q4_K_M or else Q8_0, Q4_0, Q4_1; of a repository without GGUF files it is the
folder of safetensors (config.json, tokenizer.json, model*.safetensors), which
:safetensors asks for where both are there.

Every file is checked by the hash that the hub lists. These variables steer it:
  HF_TOKEN        token for private and gated models; else the one of hf auth login
  HF_ENDPOINT     another hub or a mirror, which is shown the token
  HF_HUB_CACHE    the cache; default $HF_HOME/hub, ~/.cache/huggingface/hub
  HF_HUB_OFFLINE  1 asks no server: what is in the cache does
  HTTPS_PROXY     a proxy`,
		Example: `  wasmeter pull bartowski/SmolLM2-135M-Instruct-GGUF
  wasmeter pull bartowski/SmolLM2-135M-Instruct-GGUF:Q8_0
  wasmeter pull HuggingFaceTB/SmolLM2-135M-Instruct@main
  wasmeter serve "$(wasmeter pull Qwen/Qwen2.5-0.5B-Instruct-GGUF:Q4_K_M)"`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			reference, err := hub.ParseReference(args[0])
			if err != nil {
				return err
			}
			shown := newProgress(t.err, func(line string) { fmt.Fprintln(t.err, line) })
			pulled, err := pullModel(c.Context(), t, reference, shown)
			if err != nil {
				return err
			}
			if pulled.Fetched == 0 {
				fmt.Fprintln(t.err, "already in the cache")
			}
			_, err = fmt.Fprintln(t.out, pulled.Path)
			return err
		},
	}
}

// pullModel brings a model into the cache.
func pullModel(ctx context.Context, t terminal, r hub.Reference, shown *progress) (hub.Pulled, error) {
	options, err := hub.FromEnv(t.getenv)
	if err != nil {
		return hub.Pulled{}, err
	}
	options.UserAgent = "wasmeter/" + version
	options.Report, options.Inspect = shown.report, checkpoint.Check
	defer shown.end()
	client, err := hub.New(options)
	if err != nil {
		return hub.Pulled{}, err
	}
	defer client.Close()
	return client.Pull(ctx, r)
}

// hubModel tells whether a model is named as one of a hub. A file or folder of
// that name comes first, and so does one that looks as if it were misspelt:
// models/none.gguf. hf.co/org/repo leaves no doubt.
func hubModel(model string) (r hub.Reference, isHub bool) {
	if model == "" || onDisk(model) {
		return r, false
	}
	r, err := hub.ParseReference(model)
	if err != nil {
		return r, false
	}
	folder, _, _ := strings.Cut(model, "/")
	repo := strings.ToLower(r.Repo)
	return r, !onDisk(folder) && !strings.HasSuffix(repo, ".gguf") && !strings.HasSuffix(repo, ".safetensors")
}

func onDisk(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// findOnDisk gives the path of the configured model, and the name by which it is
// called where it was given none. One of a hub is fetched first.
func findOnDisk(ctx context.Context, t terminal, model string, logger *slog.Logger) (path, name string, err error) {
	if model == "" {
		if model, err = findModel(); err != nil {
			return "", "", err
		}
	}
	reference, isHub := hubModel(model)
	if !isHub {
		return model, modelName(model), nil
	}
	logger.Info("looking for model", "model", reference.String())
	pulled, err := pullModel(ctx, t, reference, newProgress(t.err, func(line string) { logger.Info("fetching model", "progress", line) }))
	if err != nil {
		return "", "", err
	}
	return pulled.Path, reference.Repo, nil
}
