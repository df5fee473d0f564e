package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// onlyCommands refuses arguments of a command that only holds others. cobra's own NoArgs suggests nothing, and cobra
// itself suggests for the root command alone.
func onlyCommands(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	cmd.SuggestionsMinimumDistance = 2
	return fmt.Errorf("unknown command %q%s", args[0], didYouMean(cmd.SuggestionsFor(args[0])))
}

// didYouMean returns a hint at what was probably meant, or nothing.
func didYouMean(near []string) string {
	if len(near) == 0 {
		return ""
	}
	return ": did you mean " + strings.Join(near, " or ") + "?"
}

// choice is a flag that takes one of a few values.
type choice struct {
	value   string
	allowed []string
}

// choiceFlag adds a flag of the allowed values, which are completed too.
func choiceFlag(cmd *cobra.Command, flags *pflag.FlagSet, name, short, value, usage string,
	allowed ...string) *choice {
	c := &choice{value: value, allowed: allowed}
	flags.VarP(c, name, short, usage)
	completion := cobra.FixedCompletions(allowed, cobra.ShellCompDirectiveNoFileComp)
	if err := cmd.RegisterFlagCompletionFunc(name, completion); err != nil {
		panic(err) // a flag that was not added
	}
	return c
}

// String returns the chosen value.
func (c *choice) String() string { return c.value }

// Set chooses a value.
func (c *choice) Set(text string) error {
	if !slices.Contains(c.allowed, text) {
		return errors.New("must be one of " + strings.Join(c.allowed, ", "))
	}
	c.value = text
	return nil
}

// Type returns how --help names the values.
func (c *choice) Type() string { return strings.Join(c.allowed, "|") }
