package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/wasmeter/wasmeter/config"
	"github.com/wasmeter/wasmeter/engine/backend"
	"github.com/wasmeter/wasmeter/engine/backend/sim"
	"github.com/wasmeter/wasmeter/engine/gguf"
	"github.com/wasmeter/wasmeter/engine/model"
	"github.com/wasmeter/wasmeter/engine/tokenizer"
	"github.com/wasmeter/wasmeter/host/chat"
	"github.com/wasmeter/wasmeter/hub"
)

// served is a model with all that is needed to serve it.
type served struct {
	// names are those by which requests may call it.
	names     []string
	model     model.Model // the engine owns and closes it
	tokenizer *tokenizer.Tokenizer
	// template is nil if the model has none that works: noTemplate says why.
	template   *chat.Template
	noTemplate error
	// draft guesses for the model, with the tokenizer of its own; nil without.
	draft          model.Model // the engine owns and closes it
	draftTokenizer *tokenizer.Tokenizer
	// files hold the weights' pages while the models are open; none for sim.
	files []*gguf.File
	// size is the file's, in bytes.
	size int64
	// device computes; the model owns it. Nil for sim.
	device backend.Backend
	// kvMemory is the memory for keys and values, in bytes.
	kvMemory int64
}

// close gives the files back, after the engine has closed the models.
func (s *served) close(logger *slog.Logger) {
	for _, file := range s.files {
		closing(logger, "model file", file.Close)
	}
}

// loadModel opens the configured model on the device of this build, and its
// draft model if there is one; those of a hub are fetched first.
func loadModel(ctx context.Context, t terminal, c *config.Config, logger *slog.Logger) (*served, error) {
	if err := configured(c, logger).check(); err != nil {
		return nil, err
	}
	s, err := loadOne(ctx, t, c, c.Model.Path, logger)
	if err != nil {
		return nil, err
	}
	if s.noTemplate != nil {
		logger.Warn("chat is not available", "error", s.noTemplate)
	}
	if len(c.Model.ServedNames) > 0 {
		s.names = c.Model.ServedNames
	}
	if c.Draft.Path != "" {
		d, err := loadOne(ctx, t, c, c.Draft.Path, logger)
		if err != nil {
			s.abandon(logger)
			return nil, fmt.Errorf("engine.speculative.model: %w", err)
		}
		s.draft, s.draftTokenizer, s.files = d.model, d.tokenizer, append(s.files, d.files...)
	}
	// What is left is known when all weights are loaded.
	if s.kvMemory, err = cacheMemory(c, s.device); err != nil {
		s.abandon(logger)
		return nil, err
	}
	return s, nil
}

// abandon closes all that no engine owns yet. The error that led to it is the one to
// tell.
func (s *served) abandon(logger *slog.Logger) {
	_ = s.model.Close()
	if s.draft != nil {
		_ = s.draft.Close()
	}
	s.close(logger)
}

// loadOne opens a model by its path or its name in a hub.
func loadOne(ctx context.Context, t terminal, c *config.Config, named string, logger *slog.Logger) (*served, error) {
	path, name, err := findOnDisk(ctx, t, named, logger)
	if err != nil {
		return nil, err
	}
	begun, size := time.Now(), modelSize(path)
	logger.Info("loading model", "file", path, "size", bytesText(size))
	defer heartbeat(logger, path)()

	file, err := openModel(path, c.Model.Quantize == "q8_0")
	if err != nil {
		return nil, fmt.Errorf("model: %w", err)
	}
	device := configured(c, logger)
	shown := newProgress(t.err, func(line string) { logger.Info("loading model", "progress", line) })
	device.progress = func(done, total int64) { shown.report(hub.Progress{File: path, Done: done, Size: total}) }
	s, err := loadFile(device, file)
	if err != nil {
		closing(logger, "model file", file.Close)
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	s.names, s.size = []string{name}, size
	logger.Info("loaded model", "duration", time.Since(begun).Round(time.Millisecond))
	return s, nil
}

func loadFile(device deviceOptions, file *gguf.File) (*served, error) {
	t, err := tokenizer.FromGGUF(file)
	if err != nil {
		return nil, err
	}
	b, err := device.open()
	if err != nil {
		return nil, err
	}
	m, err := model.Load(file, b)
	if err != nil {
		_ = b.Close() // the first error is the one to tell
		return nil, err
	}
	s := &served{model: m, tokenizer: t, files: []*gguf.File{file}, device: b}
	text, err := file.Text("tokenizer.chat_template")
	if err != nil {
		text = "" // chat.New says what is missing
	}
	s.template, s.noTemplate = newTemplate(text, t)
	return s, nil
}

func newTemplate(text string, t *tokenizer.Tokenizer) (*chat.Template, error) {
	o := chat.Options{Template: text, Specials: t.Specials()}
	if id, ok := t.BOS(); ok {
		o.BOS = string(t.Piece(id))
	}
	if id, ok := t.EOS(); ok {
		o.EOS = string(t.Piece(id))
	}
	return chat.New(o)
}

// heartbeat says every few seconds that loading goes on; the function ends it.
func heartbeat(logger *slog.Logger, path string) (end func()) {
	begun, ticker, done, ended := time.Now(), time.NewTicker(5*time.Second), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-ticker.C:
				logger.Info("still loading", "file", path, "duration", time.Since(begun).Round(time.Second))
			case <-done:
				return
			}
		}
	}()
	return func() {
		ticker.Stop()
		close(done)
		<-ended
	}
}

// simTemplate is the form of a prompt to the simulated device, which does not
// read it.
const simTemplate = `{% for message in messages %}{{ message.role }}: {{ message.content }}
{% endfor %}assistant: `

// simulate makes a device that takes the configured times.
func simulate(_ context.Context, _ terminal, c *config.Config, _ *slog.Logger) (*served, error) {
	if c.Draft.Path != "" {
		return nil, fmt.Errorf("engine.speculative.model: a simulated device needs no draft model; use method ngram, or none")
	}
	t := tokenizer.Bytes()
	end, _ := t.EOS() // Bytes has one; sim refuses any other
	m, err := sim.New(sim.Options{
		PrefillPerToken: c.Sim.PrefillPerToken,
		StepBase:        c.Sim.StepBase,
		PerSequence:     c.Sim.PerSequence,
		Jitter:          c.Sim.Jitter,
		MaxRows:         c.Engine.MaxNumBatchedTokens,
		Context:         c.Engine.MaxModelLen,
		Vocab:           t.Size(),
		EOS:             end,
	})
	if err != nil {
		return nil, err
	}
	s := &served{names: c.Model.ServedNames, model: m, tokenizer: t, kvMemory: c.Engine.KVCacheMemory}
	if len(s.names) == 0 {
		s.names = []string{"sim"}
	}
	if s.template, err = newTemplate(simTemplate, t); err != nil {
		_ = m.Close() // the first error is the one to tell
		return nil, err
	}
	return s, nil
}
