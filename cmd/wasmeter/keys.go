package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/wasmeter/wasmeter/config"
	"github.com/wasmeter/wasmeter/host/keys"
)

func newKeys(t terminal) *cobra.Command {
	command := &cobra.Command{
		Use:   "keys",
		Short: "Make API keys",
		Args:  cobra.NoArgs,
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	var file, tenant string
	add := &cobra.Command{
		Use:   "add NAME [flags]",
		Short: "Make a key, print it once, and keep its hash",
		Long: `Make an API key for NAME, print it, and add its SHA-256 to the keys file. The key
itself is kept nowhere: hand it to whom it is for. Serve with --api-keys-file.`,
		Example: "  wasmeter keys add alice --tenant acme\n  wasmeter serve --api-keys-file keys.yaml",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			key, err := keys.Make(file, keys.Owner{Name: args[0], Tenant: tenant})
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(t.out, "%s\n", key)
			return err
		},
	}
	add.Flags().StringVar(&file, "file", "keys.yaml", "YAML `file` of keys; made if it is missing")
	add.Flags().StringVar(&tenant, "tenant", "", "who pays for the key's requests (default the name)")
	command.AddCommand(add)
	return command
}

// loadKeys gathers the configured keys; none is an empty ring.
func loadKeys(c *config.Config, getenv func(string) string) (*keys.Ring, error) {
	ring := &keys.Ring{}
	if path := c.Access.APIKeysFile; path != "" {
		var err error
		if ring, err = keys.Load(path, getenv); err != nil {
			return nil, fmt.Errorf("server.api_keys_file: %w", err)
		}
	}
	for i, key := range c.Access.APIKeys {
		name := fmt.Sprintf("key-%d", i+1)
		if err := ring.Add(key, keys.Owner{Name: name, Tenant: name}); err != nil {
			return nil, fmt.Errorf("server.api_keys: %w", err)
		}
	}
	return ring, nil
}
