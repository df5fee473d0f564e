// Package deployments is what an operator runs the service with; programs find the rights of its roles here.
package deployments

import _ "embed" // the file

// Roles is the SQL that grants each binary's role what it needs.
//
//go:embed postgres-roles.sql
var Roles string
