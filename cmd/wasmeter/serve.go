package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"sync"

	"github.com/spf13/cobra"

	"github.com/wasmeter/wasmeter/config"
	"github.com/wasmeter/wasmeter/engine"
	"github.com/wasmeter/wasmeter/host"
	"github.com/wasmeter/wasmeter/host/admin"
	"github.com/wasmeter/wasmeter/host/ledger"
	"github.com/wasmeter/wasmeter/host/metrics"
	"github.com/wasmeter/wasmeter/host/plugin"
)

func newServe(t terminal) *cobra.Command {
	command := &cobra.Command{
		Use:   "serve [MODEL] [flags]",
		Short: "Serve a model over the OpenAI API",
		Long: `Serve a model over the OpenAI API. MODEL is a GGUF file, a folder of safetensors
(--quantize q8_0 makes it smaller and faster), or org/repo[:file] of the Hugging
Face hub, which is fetched if it is not in the cache (wasmeter pull --help); without
it, the file in models/ is served.

A value comes from the flag, else from the environment (WASMETER_SERVER__PORT),
else from the file (--config), else it is the default. wasmeter config show
--origin tells which. SIGTERM lets running requests finish; a second one does not.
SIGHUP takes over plugins, API keys, the operators' token and the log's level, and
so does a change of their files.`,
		Example: `  wasmeter serve
  wasmeter serve models/SmolLM2-135M-Instruct.Q4_1.gguf --port 9000 --enable-per-request-metrics
  wasmeter serve bartowski/SmolLM2-135M-Instruct-GGUF:Q4_K_M
  wasmeter serve Qwen/Qwen3-0.6B --quantize q8_0
  wasmeter serve --config wasmeter.yaml --max-num-seqs 16 --kv-cache-memory 512MiB
  wasmeter serve --speculative-method ngram --speculative-num-tokens 8
  wasmeter serve sim --sim-step-base 20ms`,
		Args: cobra.MaximumNArgs(1),
	}
	load := serveFlags(command, t, "sim")
	command.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := load(slices.Concat(args, []string{""})[0])
		if err != nil {
			return err
		}
		return serve(cmd.Context(), t, c, loadModel, func() (*config.Config, error) { return load(slices.Concat(args, []string{""})[0]) })
	}
	sim := &cobra.Command{
		Use:   "sim [flags]",
		Short: "Serve a simulated device: deterministic text, times by a profile",
		Long: `Serve a device that computes nothing and takes its time, for load tests and for
writing plugins. All that is above the device is real: HTTP, batching, KV blocks,
plugins, metrics.`,
		Example: "  wasmeter serve sim --sim-prefill-per-token 20us --sim-step-base 10ms --max-num-seqs 1024",
		Args:    cobra.NoArgs,
	}
	loadSim := serveFlags(sim, t, "")
	sim.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := loadSim("")
		if err != nil {
			return err
		}
		return serve(cmd.Context(), t, c, simulate, func() (*config.Config, error) { return loadSim("") })
	}
	command.AddCommand(sim)
	return command
}

// serveFlags adds the flags of the configuration to a command, and gives what
// loads it once they are parsed. The help leaves one section out.
func serveFlags(command *cobra.Command, t terminal, without string) func(model string) (*config.Config, error) {
	var file string
	flags := config.NewFlags(command.Flags())
	command.Flags().StringVar(&file, "config", "", "YAML `file` to read")
	groupFlags(command, flags, without)
	return func(model string) (*config.Config, error) {
		return config.Load(config.Sources{File: file, Environ: t.environ, Flags: flags, Model: model})
	}
}

// serve is the one place that knows every part: it opens them in the order of
// their dependence, serves until ctx ends, and closes them in reverse. open
// opens the model, reread reads the configuration again.
func serve(ctx context.Context, t terminal, c *config.Config, open func(context.Context, terminal, *config.Config, *slog.Logger) (*served, error), reread func() (*config.Config, error)) (err error) {
	level := new(slog.LevelVar)
	level.Set(levelOf(c.Log.Level))
	logger := newLogger(t.err, level)
	defer func() {
		if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
			err = fmt.Errorf("stopped before it served: %w", err)
		}
	}()

	if os.Getenv("GOGC") == "" { // the operator's word wins
		new(collector).begin()
	}

	// Port and plugins come first: what is wrong with them should not be learnt
	// after a model has been loaded for a minute.
	listener, err := net.Listen("tcp", c.Host.Server.Address())
	if err != nil {
		return fmt.Errorf("server.port: %w", err)
	}
	defer listener.Close() // the server has closed it, unless it did not start

	ring, err := loadKeys(c, os.Getenv)
	if err != nil {
		return err
	}

	records, err := openLedger(c, logger)
	if err != nil {
		return err
	}
	if records != nil {
		defer closing(logger, "ledger", records.Close)
	}

	counted, kv := &counts{logger: logger}, plugin.NewMemoryKV()
	plugins, err := loadPlugins(ctx, c, logger, counted, kv)
	if err != nil {
		return err
	}
	defer plugins.close(logger)

	model, err := open(ctx, t, c, logger)
	if err != nil {
		return err
	}
	defer model.close(logger)

	counted.metrics = metrics.New(metrics.Options{
		ModelName: model.names[0], Version: version, LogStats: c.Host.Metrics.LogStats, PrefixCaching: c.Engine.PrefixCaching,
		NumSpeculative: c.Engine.Speculative.NumSpeculative(),
		Plugins:        func() []metrics.LoadedPlugin { return loaded(plugins.current) },
	})
	options := c.Engine
	options.KVCacheMemory = model.kvMemory
	options.Logger, options.Listener = logger, counted.metrics.Listener()
	options.Speculative.Draft, options.Speculative.DraftTokenizer = model.draft, model.draftTokenizer
	e, err := engine.New(model.model, model.tokenizer, options)
	if err != nil {
		return fmt.Errorf("engine: %w", err)
	}
	defer closing(logger, "engine", e.Close)

	server, err := host.New(c.Host, host.Parts{
		Engine:     e,
		Template:   model.template,
		NoTemplate: model.noTemplate,
		Plugins:    plugins.current,
		KV:         kv,
		Ledger:     records,
		Keys:       ring,
		Models:     model.names,
		Observe: host.Observer{
			Scrape:   counted.metrics.Write,
			Rejected: counted.metrics.AdmissionRejected,
			Answered: counted.metrics.Request,
		},
		Version: version,
		Logger:  logger,
	})
	if err != nil {
		return err
	}
	ops, err := listenAdmin(c)
	if err != nil {
		return err
	}
	defer ops.stop(logger)
	reload := newReloader(logger, plugins, c, reread, counted.metrics.PluginReloadFailed,
		changeKeys(logger, c, ring, server.SetKeys), changeLevel(level), change{"admin_token", ops.retoken})
	ops.serve(logger, admin.Options{
		Host: c.AdminHost(), GuardMetrics: c.Host.Metrics.Guarded, Reload: reload.reload, Plugins: plugins.current, Scrape: counted.metrics.Write,
	})
	var reloading sync.WaitGroup
	running, stopReloading := context.WithCancel(ctx)
	reloading.Go(func() { reload.run(running) })
	defer reloading.Wait()
	defer stopReloading()

	if err := ctx.Err(); err != nil {
		return err
	}
	if err := writeBanner(t.out, listener.Addr(), c, model, e, plugins, ops); err != nil {
		return err
	}
	logger.Info("serving", "address", listener.Addr().String(), "model", model.names[0])
	if err := server.Serve(ctx, listener); err != nil {
		return fmt.Errorf("serve: %w", err)
	}
	logger.Info("drained")
	return nil
}

// openLedger opens the configured file of usage records; without one it is nil.
func openLedger(c *config.Config, logger *slog.Logger) (ledger.Recorder, error) {
	if c.Ledger.Path == "" {
		return nil, nil
	}
	file, torn, err := ledger.OpenFile(c.Ledger.Path)
	if err != nil {
		return nil, fmt.Errorf("ledger.path: %w", err)
	}
	if torn > 0 {
		logger.Warn("cut off a record that was never whole", "file", c.Ledger.Path, "bytes", torn)
	}
	return file, nil
}

// closing closes a part and says if that went wrong: nothing more can be done.
func closing(logger *slog.Logger, part string, closePart func() error) {
	if err := closePart(); err != nil {
		logger.Error("close", "part", part, "error", err)
	}
}
