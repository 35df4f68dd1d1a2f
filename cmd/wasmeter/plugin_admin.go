package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/wasmeter/wasmeter/host/admin"
)

// newPluginAdmin are the commands that ask a running server.
func newPluginAdmin(t terminal) []*cobra.Command {
	const where = `

The server listens for operators where it was started with --admin. The token is
that of its server.admin_token_file; a server that made one itself put it where
these commands look for it, if they are run by the same user on the same machine.`
	return []*cobra.Command{
		askingCommand(t, "list", "Say how a running server's plugins do",
			"List the plugins of a running server: state, calls and failures since each was\nloaded, instances, memory, hash, source and last error."+where,
			func(ctx context.Context, d *desk) error { return d.list(ctx, "GET", "") }),
		askingCommand(t, "reload", "Have a running server read its configuration again",
			"Have a running server take over its configuration: plugins, API keys, token and\nlog level, as SIGHUP does. What is wrong is told, and changes nothing."+where,
			func(ctx context.Context, d *desk) error { return d.list(ctx, "POST", "/reload") }),
		askingCommand(t, "disable NAME", "Stop a plugin of a running server at once",
			"Leave a plugin out, in the requests under way too, whatever its on_error. Records\nof requests that it would have closed are kept as unpriced. It stays disabled over\nreloads, with another module too, until enable or a restart."+where,
			func(ctx context.Context, d *desk) error { return d.turn(ctx, "disable") }),
		askingCommand(t, "enable NAME", "End what disable began",
			"Have a plugin that was disabled take part in requests again."+where,
			func(ctx context.Context, d *desk) error { return d.turn(ctx, "enable") }),
		askingCommand(t, "selftest NAME", "Try a plugin of a running server",
			"Call each hook of a plugin with three requests that were never made, as it is done\nwhen it is loaded, and say what that took. It ends with 1 if a call fails."+where,
			func(ctx context.Context, d *desk) error { return d.selfTest(ctx) }),
	}
}

// desk is a running server's listener for operators, as one command asks it.
type desk struct {
	t         terminal
	address   string // host:port
	tokenFile string // "" for the one that the server made
	name      string // of a plugin
	asJSON    bool
}

func askingCommand(t terminal, use, short, long string, ask func(context.Context, *desk) error) *cobra.Command {
	d := &desk{t: t}
	word, argument, _ := strings.Cut(use, " ")
	command := &cobra.Command{
		Use: use + " [flags]", Short: short, Long: long, Args: cobra.NoArgs,
		Example: strings.TrimRight("  wasmeter plugin "+word+" "+strings.ToLower(strings.ReplaceAll(argument, "NAME", "billing")), " "),
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				d.name = args[0]
			}
			if err := ask(c.Context(), d); err != nil {
				return fmt.Errorf("%s: %w", word, err)
			}
			return nil
		},
	}
	if argument != "" {
		command.Args = cobra.ExactArgs(1)
	}
	command.Flags().StringVar(&d.address, "admin", "127.0.0.1:8001", "`address` of the server's --admin, host:port")
	command.Flags().StringVar(&d.tokenFile, "token-file", "", "`file` of the token (default the one that the server made)")
	command.Flags().BoolVar(&d.asJSON, "json", false, "print the server's JSON")
	return command
}

func (d *desk) list(ctx context.Context, method, action string) error {
	var list admin.Plugins
	if err := d.ask(ctx, method, action, &list); err != nil || d.asJSON {
		return err
	}
	fmt.Fprintf(d.t.out, "generation %d\n", list.Generation)
	return printPlugins(d.t.out, list.Plugins)
}

func (d *desk) turn(ctx context.Context, action string) error {
	var p admin.Plugin
	if err := d.ask(ctx, "POST", "/"+url.PathEscape(d.name)+"/"+action, &p); err != nil || d.asJSON {
		return err
	}
	return printPlugins(d.t.out, []admin.Plugin{p})
}

func (d *desk) selfTest(ctx context.Context) error {
	var test admin.SelfTest
	if err := d.ask(ctx, "POST", "/"+url.PathEscape(d.name)+"/selftest", &test); err != nil {
		return err
	}
	if !d.asJSON {
		table := tabwriter.NewWriter(d.t.out, 0, 0, 2, ' ', 0)
		for _, c := range test.Calls {
			verdict := "ok"
			if !c.OK {
				verdict = "failed: " + printable(c.Error)
			}
			fmt.Fprintf(table, "%s\t%d units\t%.3f ms\t%s\t%s\n", c.Hook, c.Fuel, c.DurationMillis, c.Request, verdict)
		}
		if err := table.Flush(); err != nil { // it keeps the first error
			return err
		}
	}
	if !test.Passed {
		return fmt.Errorf("plugin %q has failed", d.name)
	}
	return nil
}

func printPlugins(out io.Writer, plugins []admin.Plugin) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "NAME\tSTATE\tHOOKS\tCALLS\tFAILURES\tINSTANCES\tMEMORY\tSHA256\tSOURCE")
	for i := range plugins {
		p := &plugins[i]
		state := "on"
		switch {
		case p.Disabled:
			state = "disabled"
		case p.Breaker != "closed":
			state = "breaker " + p.Breaker
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%d\t%d\t%s\t%.12s\t%s\n", p.Name, state, strings.Join(p.Hooks, ","),
			p.Calls, p.Failures, p.Instances, bytesText(p.MemoryBytes), p.SHA256, printable(p.Source))
	}
	if err := table.Flush(); err != nil { // it keeps the first error
		return err
	}
	for i := range plugins {
		if e := plugins[i].LastError; e != nil {
			if _, err := fmt.Fprintf(out, "\n%s failed last at %s: %s: %s: %s (request %s)\n", plugins[i].Name,
				e.Time.Format(time.RFC3339), e.Hook, e.Kind, printable(e.Message), printable(e.RequestID)); err != nil {
				return err
			}
		}
	}
	return nil
}

// maxAnswer is more than 64 plugins with all their grants take.
const maxAnswer = 16 << 20

// ask sends the request and reads the answer into a document, which it prints as
// it came for --json.
func (d *desk) ask(ctx context.Context, method, action string, into any) error {
	host, port, err := net.SplitHostPort(strings.TrimPrefix(d.address, "http://"))
	if err != nil {
		return fmt.Errorf("--admin: %q is not host:port", d.address)
	}
	token, err := d.token(port)
	if err != nil {
		return err
	}
	q, err := http.NewRequestWithContext(ctx, method, "http://"+net.JoinHostPort(host, port)+"/admin/plugins"+action, nil)
	if err != nil {
		return fmt.Errorf("--admin: %w", err)
	}
	q.Header.Set("Authorization", "Bearer "+token)
	// No proxy and no other address gets to see the token. A reload compiles.
	client := &http.Client{
		Transport:     &http.Transport{},
		Timeout:       5 * time.Minute,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	a, err := client.Do(q)
	if errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("nobody listens on %s; start the server with --admin %s, or say --admin host:port here", d.address, d.address)
	} else if err != nil {
		return err
	}
	defer a.Body.Close()
	body, err := io.ReadAll(io.LimitReader(a.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	if a.StatusCode != http.StatusOK {
		var refusal struct {
			Error struct{ Message string }
		}
		if err := json.Unmarshal(body, &refusal); err != nil || refusal.Error.Message == "" {
			return fmt.Errorf("%s answers %s; is that a wasmeter's --admin?", d.address, a.Status)
		}
		return errors.New(refusal.Error.Message)
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("%s answers something else than plugins: %w", d.address, err)
	}
	if d.asJSON {
		_, err = d.t.out.Write(body)
	}
	return err
}

// token reads the token, by default from where a server on that port puts the
// one that it makes.
func (d *desk) token(port string) (string, error) {
	if d.tokenFile != "" {
		return admin.ReadTokenText(d.tokenFile)
	}
	files := admin.TokenFiles(port)
	for _, file := range files {
		token, err := admin.ReadTokenText(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		return token, err
	}
	return "", fmt.Errorf("no token: a server of this user on port %s would have left one in %s; name the server's file with --token-file", port, strings.Join(files, " or "))
}
