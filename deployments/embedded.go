// Package deployments is what an operator runs the service with. Programs find here what they share with its documents:
// the rights of their roles, and the variables as people read of them.
package deployments

import _ "embed" // the files

// Roles is the SQL that grants each binary's role what it needs.
//
//go:embed postgres-roles.sql
var Roles string

// Configuration is the guide with the table of all variables.
//
//go:embed configuration.md
var Configuration string
