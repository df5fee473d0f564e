package app_test

import (
	"go/ast"
	"path"
	"testing"
)

const (
	longestRoad  = 17 // files
	widestRoad   = 8  // packages
	byQueue      = "" // JetStream brings the message
	byHTTP       = "" // the attempt is a call of a route
	endOfTheRoad = ""
)

// road is how a material request comes from its POST to its estimates, at the own endpoint and at the supplier's
// receiver: each function names the next one, by calling it or, where a batch, a pool or an interface is between, by
// handing it over. Calls that come back to a step (statements, signatures, parsers) are off the road.
var road = []struct{ file, function, next string }{
	{"internal/app/routes.go", "routes", "Create"},
	{"internal/materials/http.go", "Create", "Submit"},
	{"internal/materials/intake.go", "Submit", "intake"},
	{"internal/materials/intake.go", "newIntakeBatcher", "flushIntake"},
	{"internal/materials/intake.go", "flushIntake", "Publish"},
	{"internal/materials/work/work.go", "Publish", "Publish"},
	{"internal/app/adapters.go", "publish", "Publish"},
	{"internal/queue/publish.go", "Publish", "outgoing"},
	{"internal/queue/publish.go", "publishOutgoing", byQueue},
	{"internal/queue/consume.go", "pass", "take"},
	{"internal/app/adapters.go", "take", "Take"},
	{"internal/materials/work/work.go", "Take", "hand"},
	{"internal/materials/work/worker.go", "workOff", "Work"},
	{"internal/materials/work/worker.go", "Work", "workOn"},
	{"internal/materials/work/worker.go", "workOn", "estimateAll"},
	{"internal/materials/work/estimation.go", "estimateAll", "estimate"},
	{"internal/materials/work/estimation.go", "estimate", "Estimate"},
	{"internal/estimates/ratecard.go", "Estimate", "compute"},
	{"internal/estimates/compute.go", "compute", endOfTheRoad}, // back to workOn
	{"internal/materials/work/worker.go", "workOn", "finish"},
	{"internal/materials/work/worker.go", "finish", "storeEvents"},
	{"internal/materials/work/worker.go", "storeEvents", "Add"},
	{"internal/sending/outbox.go", "Add", "insert"},
	{"internal/sending/outbox.go", "insert", "transactionEnded"},
	{"internal/sending/outbox.go", "transactionEnded", "Send"},
	{"internal/dispatch/dispatch.go", "Send", "pool"},
	{"internal/dispatch/dispatch.go", "New", "attempt"},
	{"internal/dispatch/dispatch.go", "attempt", "Send"},
	{"internal/sending/dispatcher.go", "New", "attempt"},
	{"internal/sending/dispatcher.go", "attempt", "send"},
	{"internal/sending/sender.go", "send", byHTTP},
	{"internal/app/routes.go", "routes", "ReceiveEstimates"},
	{"internal/materials/http_estimates.go", "ReceiveEstimates", "receive"},
	{"internal/materials/receipts.go", "receive", "receipts"},
	{"internal/materials/receipts.go", "newReceiptBatcher", "flushReceipts"},
	{"internal/materials/receipts.go", "flushReceipts", endOfTheRoad},
}

func TestHouse_the_road_of_a_request_is_seventeen_files_in_eight_packages(t *testing.T) {
	t.Parallel()
	bodies := map[string]map[string]bool{} // file.function, and the names in its body
	for _, f := range sources(t) {
		for _, d := range f.tree.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || f.test {
				continue
			}
			names := map[string]bool{}
			ast.Inspect(fn, func(n ast.Node) bool {
				if id, ok := n.(*ast.Ident); ok && id != fn.Name {
					names[id.Name] = true
				}
				return true
			})
			bodies[f.name+"."+fn.Name.Name] = names
		}
	}
	files, packages := map[string]bool{}, map[string]bool{}
	for _, step := range road {
		files[step.file], packages[path.Dir(step.file)] = true, true
		switch body := bodies[step.file+"."+step.function]; {
		case body == nil:
			t.Errorf("%s has no %s", step.file, step.function)
		case step.next != "" && !body[step.next]:
			t.Errorf("%s: %s does not go on to %s", step.file, step.function, step.next)
		}
	}
	t.Logf("%d steps, %d files, %d packages", len(road), len(files), len(packages))
	if len(files) > longestRoad || len(packages) > widestRoad {
		t.Errorf("%d files of at most %d, %d packages of at most %d", len(files), longestRoad, len(packages), widestRoad)
	}
}
