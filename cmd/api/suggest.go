package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
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
	var names []string
	for _, child := range cmd.Commands() {
		if child.IsAvailableCommand() {
			names = append(names, child.Name())
		}
	}
	return fmt.Errorf("unknown command %q for %q%s", args[0], cmd.CommandPath(), didYouMean(args[0], names...))
}

// badFlag names the flag that was most likely meant, and says of a number what it must be.
func badFlag(cmd *cobra.Command, err error) error {
	if bad, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		if _, number := errors.AsType[*strconv.NumError](err); number {
			return fmt.Errorf("--%s must be a whole number, not %q", bad.GetFlag().Name, bad.GetValue())
		}
		return fmt.Errorf("--%s %w", bad.GetFlag().Name, bad.Unwrap())
	}
	unknown, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok {
		return err
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	return fmt.Errorf("%w%s", err, didYouMean(unknown.GetSpecifiedName(), names...))
}

// badUsage returns an error of cobra's for a person: which flag is needed, or how the command is called.
func badUsage(cmd *cobra.Command, err error) string {
	text := err.Error()
	if list, missing := strings.CutPrefix(text, "required flag(s) "); missing {
		list, _ = strings.CutSuffix(list, " not set")
		return strings.ReplaceAll(list, `"`, "") + " is required: " + cmd.UseLine()
	}
	if strings.HasPrefix(text, "accepts ") || strings.HasPrefix(text, "requires at least ") {
		return "call it as: " + cmd.UseLine()
	}
	return text
}

// didYouMean returns a hint at the values that are near to what was typed, or nothing. cobra measures.
func didYouMean(typed string, values ...string) string {
	const blank = "\u00a0" // a command's name ends at a blank, a supplier's does not
	words := &cobra.Command{SuggestionsMinimumDistance: 2}
	for _, value := range values {
		words.AddCommand(&cobra.Command{Use: strings.ReplaceAll(value, " ", blank), Run: func(*cobra.Command, []string) {}})
	}
	near := words.SuggestionsFor(strings.ReplaceAll(typed, " ", blank))
	if len(near) == 0 {
		return ""
	}
	return ": did you mean " + strings.ReplaceAll(strings.Join(near, " or "), blank, " ") + "?"
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
		last := len(c.allowed) - 1
		return fmt.Errorf("must be %s or %s%s", strings.Join(c.allowed[:last], ", "), c.allowed[last],
			didYouMean(text, c.allowed...))
	}
	c.value = text
	return nil
}

// Type returns how --help names the values.
func (c *choice) Type() string { return strings.Join(c.allowed, "|") }
