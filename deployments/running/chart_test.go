//go:build unix

package running_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/supplyhub/supplyhub/internal/app/apptest/wait"
	"github.com/supplyhub/supplyhub/internal/queue/queuetest"
)

const (
	administrator = "administrator-of-the-test"
	namespace     = "hub"
)

// kubernetes is an API server with its store. Nothing behind it carries out what it accepts.
type kubernetes struct {
	machine
	url    string
	client http.Client
}

func newKubernetes(t *testing.T) kubernetes {
	t.Helper()
	k := kubernetes{machine: newMachine(t)}
	dir := t.TempDir()
	address := func() string { return "127.0.0.1:" + strconv.Itoa(queuetest.FreePort(t)) }
	store, peer, api := address(), address(), address()
	k.url = "https://" + api
	k.client.Transport = &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, // its certificate belongs to this test
	}
	config := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: test,
contexts: [{name: test, context: {cluster: test, user: test, namespace: default}}],
clusters: [{name: test, cluster: {server: "%s", insecure-skip-tls-verify: true}}],
users: [{name: test, user: {token: %s}}]}`, k.url, administrator)
	for name, text := range map[string]string{"tokens": administrator + `,admin,admin,"system:masters"`,
		"kubeconfig": config} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	k.run(dir, "openssl", "genrsa", "-out", "accounts.key", "2048")
	k.start(dir, "etcd", "--data-dir", "etcd", "--listen-client-urls", "http://"+store, "--advertise-client-urls",
		"http://"+store,
		"--listen-peer-urls", "http://"+peer, "--initial-advertise-peer-urls", "http://"+peer, "--initial-cluster",
		"default=http://"+peer)
	_, port, _ := strings.Cut(api, ":")
	k.start(dir, "kube-apiserver", "--etcd-servers", "http://"+store, "--secure-port", port, "--bind-address", "127.0.0.1",
		"--cert-dir", "certificates", "--token-auth-file", "tokens", "--service-account-issuer", "https://test",
		"--service-account-key-file", "accounts.key", "--service-account-signing-key-file", "accounts.key",
		"--authorization-mode", "RBAC", "--service-cluster-ip-range", "10.0.0.0/24")
	k.env = append(k.env, "KUBECONFIG="+filepath.Join(dir, "kubeconfig"))
	wait.Until(t, "the API server is ready", func() bool {
		status, _ := k.call(http.MethodGet, "/readyz", "", nil)
		return status == http.StatusOK
	})
	return k
}

// start runs a server until the end of the test.
func (k kubernetes) start(dir, name string, args ...string) {
	k.t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(k.t.Context()), name, args...)
	var log bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &log, &log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		k.t.Fatal(err)
	}
	k.t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
		if k.t.Failed() {
			k.t.Logf("%s: %s", name, tail(log.String()))
		}
	})
}

func (k kubernetes) call(method, path, kind string, body []byte) (status int, answer string) {
	k.t.Helper()
	r, err := http.NewRequestWithContext(context.WithoutCancel(k.t.Context()), method, k.url+path, bytes.NewReader(body))
	if err != nil {
		k.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+administrator)
	r.Header.Set("Content-Type", kind)
	got, err := k.client.Do(r)
	if err != nil {
		return 0, err.Error()
	}
	defer got.Body.Close()
	text, _ := io.ReadAll(got.Body)
	for _, warning := range got.Header.Values("Warning") {
		k.t.Errorf("%s %s: %s", method, path, warning)
	}
	return got.StatusCode, string(text)
}

const jsonKind, yamlKind = "application/json", "application/yaml"

// made creates an object, strictly, really or as a dry run.
func (k kubernetes) made(path, kind string, object []byte, dry bool) string {
	k.t.Helper()
	path += "?fieldValidation=Strict"
	if dry {
		path += "&dryRun=All"
	}
	status, answer := k.call(http.MethodPost, path, kind, object)
	if status != http.StatusCreated {
		k.t.Errorf("%s is refused: %d %s\n%s", path, status, answer, object)
	}
	return answer
}

// collections are the paths of the chart's kinds, below the version.
var collections = map[string]string{"Deployment": "deployments", "Service": "services", "Job": "jobs",
	"ConfigMap":           "configmaps",
	"PodDisruptionBudget": "poddisruptionbudgets", "NetworkPolicy": "networkpolicies", "ScaledObject": "scaledobjects",
	"HorizontalPodAutoscaler": "horizontalpodautoscalers"}

func (k kubernetes) pathOf(version, kind string) string {
	root := "/apis/" + version
	if version == "v1" {
		root = "/api/v1"
	}
	return root + "/namespaces/" + namespace + "/" + collections[kind]
}

// The chart in a namespace that enforces the restricted standard: linted, every object of four installations accepted
// strictly, and installed; then the command of its notes.
func TestChart_is_taken_by_an_API_server_in_a_restricted_namespace(t *testing.T) {
	k := newKubernetes(t)
	definition, err := os.ReadFile(filepath.Join(k.dir, "keda.sh_scaledobjects.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	k.made("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", yamlKind, definition, false)
	k.made("/api/v1/namespaces", jsonKind, []byte(`{"apiVersion": "v1", "kind": "Namespace", "metadata": {
		"name": "`+namespace+`", "labels": {"pod-security.kubernetes.io/enforce": "restricted",
		"pod-security.kubernetes.io/warn": "restricted"}}}`), false)
	k.made("/api/v1/namespaces/"+namespace+"/serviceaccounts", jsonKind,
		[]byte(`{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}`), false)
	wait.Until(t, "KEDA's kind is served", func() bool {
		status, _ := k.call(http.MethodGet, k.pathOf("keda.sh/v1alpha1", "ScaledObject"), "", nil)
		return status == http.StatusOK
	})
	chart := k.tree("deployments", "chart")
	for name, values := range map[string][]string{"small": nil, "large": {"-f", filepath.Join(chart, "values-large.yaml")},
		"hpa":   {"--set", "worker.autoscaling.mode=hpa,api.autoscaling.enabled=true"},
		"roles": {"--set", "migration.roles=true", "--set-string", "api.config.RETENTION_DAYS=90"}} {
		k.run(k.tree(), "helm", append([]string{"lint", "--strict", chart}, values...)...)
		rendered, err := k.quietly(k.tree(), "helm",
			append([]string{"template", "hub", chart, "-n", namespace}, values...)...)
		if err != nil {
			t.Fatalf("%s: %v\n%s", name, err, rendered)
		}
		_, rendered, _ = strings.Cut(rendered, "---\n") // after what helm says of links
		objects := 0
		for document := range strings.SplitSeq(rendered, "\n---\n") {
			var head struct {
				APIVersion string `yaml:"apiVersion"`
				Kind       string `yaml:"kind"`
			}
			if err := yaml.Unmarshal([]byte(document), &head); err != nil {
				t.Fatal(err)
			}
			k.made(k.pathOf(head.APIVersion, head.Kind), yamlKind, []byte(document), true)
			objects++
		}
		t.Logf("%s: %d objects are accepted", name, objects)
		if objects < 8 {
			t.Errorf("%s: only %d objects", name, objects)
		}
	}
	k.installed()
}

// installed installs the release. No kubelet runs the job of its hook: the test says that it is done.
func (k kubernetes) installed() {
	k.t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		job := k.pathOf("batch/v1", "Job") + "/hub-migrate"
		wait.Within(wait.Limit, func() bool {
			status, _ := k.call(http.MethodGet, job, "", nil)
			return status == http.StatusOK
		})
		status, answer := k.call(http.MethodPatch, job+"/status", "application/merge-patch+json",
			[]byte(`{"status": {"succeeded": 1,
			"startTime": "2026-01-01T00:00:00Z", "completionTime": "2026-01-01T00:00:01Z", "conditions": [
			{"type": "SuccessCriteriaMet", "status": "True"}, {"type": "Complete", "status": "True"}]}}`))
		if status != http.StatusOK {
			k.t.Errorf("the job's state is not taken: %d %s", status, answer)
		}
	}()
	printed := k.typed("helm install hub deployments/chart -n " + namespace + " --timeout 2m")
	<-done
	line := regexp.MustCompile(`kubectl run supplyhub-command -n ` + namespace + ` .*--overrides='(.*)'`)
	command := line.FindStringSubmatch(printed)
	if command == nil {
		k.t.Fatalf("the notes have no command: %s", printed)
	}
	var pod map[string]any
	if err := json.Unmarshal([]byte(command[1]), &pod); err != nil {
		k.t.Fatal(err)
	}
	pod["apiVersion"], pod["kind"], pod["metadata"] = "v1", "Pod", map[string]any{"name": "supplyhub-command"}
	text, err := json.Marshal(pod)
	if err != nil {
		k.t.Fatal(err)
	}
	k.made("/api/v1/namespaces/"+namespace+"/pods", jsonKind, text, false)
}
