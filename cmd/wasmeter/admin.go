package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"

	"github.com/wasmeter/wasmeter/config"
	"github.com/wasmeter/wasmeter/host/admin"
)

// operators is the listener on which they ask; nil where there is none.
type operators struct {
	listener  net.Listener
	token     admin.Token
	tokenFile string
	made      bool // the token, at this start

	server *admin.Server
	http   *http.Server
	ended  chan struct{}
}

// listenAdmin listens for operators, and reads or makes the token that they
// show. Nobody is answered before serve.
func listenAdmin(c *config.Config) (*operators, error) {
	if c.Access.Admin == "" {
		return nil, nil
	}
	l, err := net.Listen("tcp", c.Access.Admin)
	if err != nil {
		return nil, fmt.Errorf("server.admin: %w", err)
	}
	o := &operators{listener: l, tokenFile: c.Access.AdminTokenFile, ended: make(chan struct{})}
	if err := o.readToken(); err != nil {
		_ = l.Close() // the first error is the one to tell
		return nil, err
	}
	return o, nil
}

func (o *operators) readToken() (err error) {
	if o.tokenFile != "" {
		if o.token, err = admin.ReadToken(o.tokenFile); err != nil {
			return fmt.Errorf("server.admin_token_file: %w", err)
		}
		return nil
	}
	_, port, err := net.SplitHostPort(o.listener.Addr().String())
	if err != nil {
		return fmt.Errorf("server.admin: %w", err)
	}
	const instead = "put a token into a file and set server.admin_token_file"
	files := admin.TokenFiles(port)
	if len(files) == 0 {
		return fmt.Errorf("server.admin: operators show a token, and there is no folder to write one to: neither XDG_RUNTIME_DIR nor HOME is set; %s", instead)
	}
	o.tokenFile, o.made = files[0], true
	if o.token, err = admin.MakeToken(o.tokenFile); err != nil {
		return fmt.Errorf("server.admin: write a token for operators: %w; %s", err, instead)
	}
	return nil
}

// serve answers operators until stop.
func (o *operators) serve(logger *slog.Logger, options admin.Options) {
	if o == nil {
		return
	}
	options.Token = o.token
	o.server = admin.New(options)
	o.http = o.server.HTTP()
	go func() {
		defer close(o.ended)
		if err := o.http.Serve(o.listener); !errors.Is(err, http.ErrServerClosed) {
			logger.Error("the operators' listener has ended", "error", err)
		}
	}()
	logger.Info("serving operators", "address", o.listener.Addr().String(), "token_file", o.tokenFile)
}

// stop ends the listener, and takes back the token that was made for it.
func (o *operators) stop(logger *slog.Logger) {
	if o == nil {
		return
	}
	if o.http != nil {
		closing(logger, "operators' listener", o.http.Close)
		<-o.ended
	} else {
		closing(logger, "operators' listener", o.listener.Close)
	}
	if o.made {
		closing(logger, "operators' token", func() error { return os.Remove(o.tokenFile) })
	}
}

// retoken takes over the token of a configuration that names its file; one that
// was made stays.
func (o *operators) retoken(next *config.Config) (apply func() string, err error) {
	unchanged := func() string { return "" }
	file := next.Access.AdminTokenFile
	switch {
	case o == nil:
		return unchanged, nil
	case file == "" && o.made:
		return unchanged, nil
	case file == "":
		return nil, errors.New("server.admin_token_file: it can be changed while the server runs, and not be left out: a token is made at the start only")
	}
	token, err := admin.ReadToken(file)
	if err != nil {
		return nil, fmt.Errorf("server.admin_token_file: %w", err)
	}
	return func() string {
		if token == o.token {
			return ""
		}
		if o.made {
			_ = os.Remove(o.tokenFile) // it is of no more use; left behind it does no harm
		}
		o.token, o.tokenFile, o.made = token, file, false
		o.server.SetToken(token)
		return "of " + file
	}, nil
}
