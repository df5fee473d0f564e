package checks_test

import (
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

// installations are the values that the chart is rendered with, as an operator would give them.
var installations = map[string]string{
	"small": ``,
	"large": "values-large.yaml",
	"hpa":   `worker: {autoscaling: {mode: hpa, minReplicas: 0}}`,
	"everything given": `{nodeSelector: {a: b}, tolerations: [{key: x, operator: Exists}], ` +
		`image: {tag: v9, pullSecrets: [{name: r}]}, volumes: [{name: nats, secret: {secretName: nats}}], ` +
		`volumeMounts: [{name: nats, mountPath: /nats}], networkPolicy: {adminFrom: [{namespaceSelector: {}}], ` +
		`extraEgress: [{ports: [{port: 4318}]}], privateNetworks: [10.0.0.0/8, 169.254.0.0/16, "2001:db8::/32"]}, ` +
		`migration: {roles: true}, config: {NATS_CREDS: /nats/creds}}`,
	"nothing extra": `{networkPolicy: {enabled: false}, migration: {enabled: false}}`,
}

// object is a rendered object: typed for Kubernetes' own kinds, unstructured for KEDA's.
type object = runtime.Object

func render(t *testing.T, values string) (map[string]string, error) {
	t.Helper()
	if strings.HasSuffix(values, ".yaml") {
		content, err := os.ReadFile(filepath.Join("../chart", values))
		if err != nil {
			t.Fatal(err)
		}
		values = string(content)
	}
	chart, err := loader.LoadDir("../chart")
	if err != nil {
		t.Fatal(err)
	}
	given, err := common.ReadValues([]byte(values))
	if err != nil {
		t.Fatal(err)
	}
	all, err := util.ToRenderValues(chart, given,
		common.ReleaseOptions{Name: "hub", Namespace: "default", Revision: 1, IsInstall: true}, nil)
	if err != nil {
		return nil, err
	}
	return engine.Render(chart, all)
}

// objects are the rendered ones by kind and name; a field that Kubernetes does not know fails.
func objects(t *testing.T, values string) map[string]object {
	t.Helper()
	files, err := render(t, values)
	if err != nil {
		t.Fatal(err)
	}
	decoder := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	found := map[string]object{}
	for name, text := range files {
		if !strings.HasSuffix(name, ".yaml") {
			continue
		}
		for _, document := range regexp.MustCompile(`(?m)^---$`).Split(text, -1) {
			if strings.TrimSpace(document) == "" {
				continue
			}
			var o object
			if strings.Contains(document, "keda.sh/") {
				u := &unstructured.Unstructured{}
				err = yaml.UnmarshalStrict([]byte(document), &u.Object)
				o = u
			} else {
				o, _, err = decoder.Decode([]byte(document), nil, nil)
			}
			if err != nil {
				t.Fatalf("%s: %v\n%s", name, err, document)
			}
			meta, _ := o.(metav1.Object)
			found[o.GetObjectKind().GroupVersionKind().Kind+"/"+meta.GetName()] = o
		}
	}
	return found
}

func each(t *testing.T, check func(t *testing.T, all map[string]object)) {
	t.Helper()
	for name, values := range installations {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check(t, objects(t, values))
		})
	}
}

// get is the rendered object of a kind and name.
func get[T object](t *testing.T, all map[string]object, name string) T {
	t.Helper()
	o, ok := all[name].(T)
	if !ok {
		t.Fatalf("%s is not rendered, but %v", name, slices.Sorted(maps.Keys(all)))
	}
	return o
}

func podSpecs(all map[string]object) map[string]corev1.PodTemplateSpec {
	specs := map[string]corev1.PodTemplateSpec{}
	for name, o := range all {
		switch o := o.(type) {
		case *appsv1.Deployment:
			specs[name] = o.Spec.Template
		case *batchv1.Job:
			specs[name] = o.Spec.Template
		}
	}
	return specs
}

func TestChart_pods_run_without_any_privilege_and_within_limits(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, all map[string]object) {
		for name, pod := range podSpecs(all) {
			checkUnprivileged(t, name, pod.Spec)
		}
	})
}

func checkUnprivileged(t *testing.T, name string, pod corev1.PodSpec) {
	t.Helper()
	s := pod.SecurityContext
	if s == nil || s.RunAsNonRoot == nil || !*s.RunAsNonRoot || s.SeccompProfile == nil ||
		pod.AutomountServiceAccountToken == nil || *pod.AutomountServiceAccountToken {
		t.Errorf("%s: the pod has more rights than it needs", name)
	}
	for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
		s := c.SecurityContext
		if s == nil || s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem || s.AllowPrivilegeEscalation == nil ||
			*s.AllowPrivilegeEscalation || len(s.Capabilities.Drop) == 0 {
			t.Errorf("%s: container %s has more rights than it needs", name, c.Name)
		}
		if c.Resources.Limits.Memory().IsZero() || c.Resources.Requests.Cpu().IsZero() {
			t.Errorf("%s: container %s has no limit of memory or asks for no CPU", name, c.Name)
		}
	}
}

// The command that the chart's notes print runs where every other pod does: with the same restrictions, and with every
// variable that an api or a worker has. An api's own value goes before a worker's.
func TestChart_notes_print_a_command_with_every_restriction_and_setting(t *testing.T) {
	t.Parallel()
	const own = "ESTIMATES_WEBHOOK_BASE_URL: "
	for name, c := range map[string]struct{ values, endpoint string }{
		"by itself": {``, "http://hub-api:80"},
		"large":     {"values-large.yaml", "http://hub-api:80"},
		"everything": {`{image: {pullSecrets: [{name: r}]}, config: {OPERATOR_WEBHOOK_URL: "https://operator.example",
			WEBHOOK_TIMEOUT: 20s}, api: {service: {port: 81}, config: {PUBLIC_URL: "https://hub.example"}},
			worker: {autoscaling: {mode: keda}, config: {WEBHOOK_TIMEOUT: 30s, WEBHOOK_PAUSE_AFTER: 120h}}}`,
			"http://hub-api:81"},
		"for both":   {`config: {` + own + `"http://both"}`, "http://both"},
		"a worker's": {`worker: {config: {` + own + `"http://w"}}`, "http://w"},
		"an api's":   {`{worker: {config: {` + own + `"http://w"}}, api: {config: {` + own + `"http://a"}}}`, "http://a"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := commandOf(t, c.values)
			checkUnprivileged(t, "the command", pod.Spec)
			all := objects(t, c.values)
			container := func(component string) corev1.Container {
				return get[*appsv1.Deployment](t, all, "Deployment/hub-"+component).Spec.Template.Spec.Containers[0]
			}
			command := pod.Spec.Containers[0]
			want := env(container("worker"))
			maps.Copy(want, env(container("api")))
			if got := env(command); !maps.Equal(got, want) || got["ESTIMATES_WEBHOOK_BASE_URL"] != c.endpoint {
				t.Errorf("the command has %v, api and worker have %v", got, want)
			}
			if len(command.EnvFrom) != 2 || command.EnvFrom[0].SecretRef.Name != "supplyhub-api" ||
				command.EnvFrom[1].SecretRef.Name != "supplyhub-migration" || command.Name != "supplyhub-command" ||
				len(pod.Spec.ImagePullSecrets) != strings.Count(c.values, "name: r") {
				t.Errorf("%+v", pod)
			}
		})
	}
}

// commandOf is the pod that the notes' command makes.
func commandOf(t *testing.T, values string) (pod corev1.Pod) {
	t.Helper()
	files, err := render(t, values)
	if err != nil {
		t.Fatal(err)
	}
	notes := files["supplyhub/templates/NOTES.txt"]
	line := regexp.MustCompile(`kubectl run supplyhub-command -n default .*--overrides='(.*)'`).FindStringSubmatch(notes)
	if line == nil {
		t.Fatal(notes)
	}
	if err := yaml.UnmarshalStrict([]byte(line[1]), &pod); err != nil {
		t.Fatal(err)
	}
	return pod
}

func TestChart_probes_ask_the_operator_listener(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, all map[string]object) {
		for _, name := range []string{"api", "worker"} {
			pod := get[*appsv1.Deployment](t, all, "Deployment/hub-"+name).Spec.Template.Spec
			c := pod.Containers[0]
			for path, probe := range map[string]*corev1.Probe{"/livez": c.LivenessProbe, "/readyz": c.ReadinessProbe} {
				if probe == nil || probe.HTTPGet.Path != path || probe.HTTPGet.Port.StrVal != "admin" {
					t.Errorf("%s: %s is not probed at the operator listener: %+v", name, path, probe)
				}
			}
			if c.StartupProbe == nil || env(c)["ADMIN_ADDR"] != ":9090" || !slices.ContainsFunc(c.Ports,
				func(p corev1.ContainerPort) bool { return p.Name == "admin" && p.ContainerPort == 9090 }) {
				t.Errorf("%s: no startup probe, or the operator listener is not at its port", name)
			}
			if *pod.TerminationGracePeriodSeconds < 36 {
				t.Errorf("%s has %d s to end and needs up to 30 and DRAIN_DELAY", name, *pod.TerminationGracePeriodSeconds)
			}
		}
	})
}

func env(c corev1.Container) map[string]string {
	values := map[string]string{}
	for _, e := range c.Env {
		values[e.Name] = e.Value
	}
	return values
}

// variables are those of configuration.md's table, which a test holds to the configuration itself.
func variables(t *testing.T) []string {
	t.Helper()
	table, err := os.ReadFile("../configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, match := range regexp.MustCompile("(?m)^\\| `([A-Z][A-Z0-9_]+)` \\|").FindAllSubmatch(table, -1) {
		names = append(names, string(match[1]))
	}
	if len(names) < 20 {
		t.Fatalf("configuration.md's table has only %v", names)
	}
	return names
}

func TestChart_sets_only_variables_that_exist_and_takes_secrets_from_outside(t *testing.T) {
	t.Parallel()
	known := variables(t)
	each(t, func(t *testing.T, all map[string]object) {
		for name, secret := range map[string]string{"api": "supplyhub-api", "worker": "supplyhub-worker"} {
			c := get[*appsv1.Deployment](t, all, "Deployment/hub-"+name).Spec.Template.Spec.Containers[0]
			for variable := range env(c) {
				if !slices.Contains(known, variable) {
					t.Errorf("%s gets %s, which no binary reads", name, variable)
				}
			}
			if len(c.EnvFrom) != 1 || c.EnvFrom[0].SecretRef.Name != secret {
				t.Errorf("%s takes its secrets from %+v", name, c.EnvFrom)
			}
		}
		worker := get[*appsv1.Deployment](t, all, "Deployment/hub-worker").Spec.Template.Spec.Containers[0]
		if got := env(worker)["ESTIMATES_WEBHOOK_BASE_URL"]; got != "http://hub-api:80" ||
			worker.Command[0] != "/usr/local/bin/worker" {
			t.Errorf("the worker %v calls %s", worker.Command, got)
		}
		for name, o := range all {
			if _, secret := o.(*corev1.Secret); secret {
				t.Errorf("the chart makes %s", name)
			}
		}
	})
}

func TestChart_refuses_values_that_it_does_not_know_and_secrets_in_the_open(t *testing.T) {
	t.Parallel()
	for _, values := range []string{
		`replicas: 3`, `worker: {autoscaling: {mode: magic}}`, `secrets: {api: ""}`, `config: {WORKER_CONCURRENCY: 64}`,
		`api: {config: {JWT_SIGNING_KEYS: x}}`,
		`config: {DATABASE_URL: "postgres://x"}`, `api: {config: {TRACKER_DATABASE_URL: "postgres://x"}}`,
		`config: {OTEL_EXPORTER_OTLP_HEADERS: x}`, `config: {ADMIN_ADDR: ":1"}`, `api: {config: {HTTP_ADDR: ":1"}}`,
		`config: {PULSE_API_KEY: x}`, `config: {lower: x}`, `api: {replicas: 0}`,
	} {
		if _, err := render(t, values); err == nil {
			t.Errorf("%s is accepted", values)
		}
	}
}

func TestChart_selectors_find_their_pods_and_nothing_else(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, all map[string]object) {
		for _, component := range []string{"api", "worker"} {
			d := get[*appsv1.Deployment](t, all, "Deployment/hub-"+component)
			pdb := get[*policyv1.PodDisruptionBudget](t, all, "PodDisruptionBudget/hub-"+component)
			selectors := map[string]*metav1.LabelSelector{"deployment": d.Spec.Selector, "disruption budget": pdb.Spec.Selector}
			if policy, ok := all["NetworkPolicy/hub-"+component].(*networkingv1.NetworkPolicy); ok {
				selectors["network policy"] = &policy.Spec.PodSelector
			}
			if component == "api" {
				selectors["service"] = metav1.SetAsLabelSelector(get[*corev1.Service](t, all, "Service/hub-api").Spec.Selector)
			}
			for what, s := range selectors {
				selector, err := metav1.LabelSelectorAsSelector(s)
				if err != nil {
					t.Fatal(err)
				}
				for name, pod := range podSpecs(all) {
					if own := name == "Deployment/hub-"+component; selector.Matches(labels.Set(pod.Labels)) != own {
						t.Errorf("the %s of %s selects %s: %t", what, component, name, !own)
					}
				}
			}
			if pdb.Spec.MaxUnavailable.IntValue() != 1 {
				t.Errorf("%s: more than one pod may be away at a time", component)
			}
		}
	})
}

func TestChart_scales_workers_by_backlog_or_CPU_and_leaves_replicas_to_what_scales(t *testing.T) {
	t.Parallel()
	small, large, hpa := objects(t, installations["small"]), objects(t, installations["large"]),
		objects(t, installations["hpa"])
	if d := get[*appsv1.Deployment](t, small, "Deployment/hub-worker"); d.Spec.Replicas == nil || *d.Spec.Replicas != 2 ||
		small["ScaledObject/hub-worker"] != nil || small["HorizontalPodAutoscaler/hub-worker"] != nil {
		t.Error("a small installation has no fixed number of workers")
	}
	for name, all := range map[string]map[string]object{"large": large, "hpa": hpa} {
		if d := get[*appsv1.Deployment](t, all, "Deployment/hub-worker"); d.Spec.Replicas != nil {
			t.Errorf("%s: each upgrade sets the workers to %d", name, *d.Spec.Replicas)
		}
	}
	for _, h := range []*autoscalingv2.HorizontalPodAutoscaler{
		get[*autoscalingv2.HorizontalPodAutoscaler](t, hpa, "HorizontalPodAutoscaler/hub-worker"),
		get[*autoscalingv2.HorizontalPodAutoscaler](t, large, "HorizontalPodAutoscaler/hub-api"),
	} {
		if h.Spec.ScaleTargetRef.Name != h.Name || *h.Spec.MinReplicas < 1 ||
			h.Spec.Metrics[0].Resource.Target.AverageUtilization == nil {
			t.Errorf("%s: %+v", h.Name, h.Spec)
		}
	}
	scaled := get[*unstructured.Unstructured](t, large, "ScaledObject/hub-worker")
	target, _, _ := unstructured.NestedString(scaled.Object, "spec", "scaleTargetRef", "name")
	triggers, _, _ := unstructured.NestedSlice(scaled.Object, "spec", "triggers")
	trigger, _ := triggers[0].(map[string]any)
	metadata, _, _ := unstructured.NestedStringMap(trigger, "metadata")
	want := map[string]string{"url": "http://" + backlogHost + ":9090/backlog", "valueLocation": "backlog",
		"targetValue": "200", "activationTargetValue": "0"}
	if target != "hub-worker" || trigger["type"] != "metrics-api" || !maps.Equal(metadata, want) {
		t.Errorf("KEDA scales %s by %v", target, trigger)
	}
}

const backlogHost = "hub-backlog.default.svc"

// KEDA's operator has a way to the apis' operator listeners: a service, a rule of the network, and a name that they
// answer to. No service has it where KEDA does not scale.
func TestChart_lets_KEDA_and_no_other_pod_ask_for_the_backlog(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ values, hosts string }{
		"by itself":     {`worker: {autoscaling: {mode: keda, minReplicas: 0}}`, backlogHost},
		"next to names": {`{worker: {autoscaling: {mode: keda}}, config: {ADMIN_HOSTS: "a.b,c"}}`, backlogHost + ",a.b,c"},
		"not at all":    {`config: {ADMIN_HOSTS: c}`, "c"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := objects(t, c.values)
			scales := name != "not at all"
			api := get[*appsv1.Deployment](t, all, "Deployment/hub-api").Spec.Template
			if hosts := env(api.Spec.Containers[0])["ADMIN_HOSTS"]; hosts != c.hosts {
				t.Errorf("the api answers to %q", hosts)
			}
			service, found := all["Service/hub-backlog"].(*corev1.Service)
			if found != scales {
				t.Fatalf("there is a service for it: %t", found)
			}
			ingress := get[*networkingv1.NetworkPolicy](t, all, "NetworkPolicy/hub-api").Spec.Ingress
			open := slices.IndexFunc(ingress, func(r networkingv1.NetworkPolicyIngressRule) bool {
				return r.Ports[0].Port.StrVal == "admin"
			})
			if !scales {
				if open >= 0 {
					t.Errorf("the operator listener is open to %v", ingress[open].From)
				}
				return
			}
			if !labels.SelectorFromSet(service.Spec.Selector).Matches(labels.Set(api.Labels)) ||
				service.Spec.Type != "ClusterIP" ||
				service.Spec.Ports[0].Port != 9090 || service.Spec.Ports[0].TargetPort.StrVal != "admin" {
				t.Errorf("the service is %+v", service.Spec)
			}
			if open < 0 || len(ingress[open].From) != 1 ||
				ingress[open].From[0].PodSelector.MatchLabels["app"] != "keda-operator" {
				t.Errorf("the network lets in %+v", ingress)
			}
		})
	}
}

func TestChart_migrates_where_its_pods_run_and_with_their_files(t *testing.T) {
	t.Parallel()
	all := objects(t, installations["everything given"])
	api := get[*appsv1.Deployment](t, all, "Deployment/hub-api").Spec.Template.Spec
	job := get[*batchv1.Job](t, all, "Job/hub-migrate").Spec.Template.Spec
	if !maps.Equal(job.NodeSelector, api.NodeSelector) || !slices.Equal(job.Tolerations, api.Tolerations) ||
		!slices.Equal(job.ImagePullSecrets, api.ImagePullSecrets) || len(job.NodeSelector)*len(job.Tolerations) == 0 {
		t.Errorf("the migration runs at %v, %v", job.NodeSelector, job.Tolerations)
	}
	if !slices.ContainsFunc(job.Volumes, func(v corev1.Volume) bool { return v.Name == "nats" && v.Secret != nil }) {
		t.Errorf("the migration has no other volumes than %+v", job.Volumes)
	}
	for _, c := range slices.Concat(job.InitContainers, job.Containers) {
		if !slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == "/nats" }) {
			t.Errorf("%s mounts %+v", c.Name, c.VolumeMounts)
		}
	}
}

// The API server refuses an exception that is not within its block.
func TestChart_network_policies_except_networks_of_the_block_s_own_family(t *testing.T) {
	t.Parallel()
	seen := 0
	for _, rule := range get[*networkingv1.NetworkPolicy](t, objects(t, installations["everything given"]),
		"NetworkPolicy/hub-worker").Spec.Egress {
		for _, peer := range rule.To {
			if peer.IPBlock == nil {
				continue
			}
			block := netip.MustParsePrefix(peer.IPBlock.CIDR)
			for _, except := range peer.IPBlock.Except {
				if seen++; !block.Contains(netip.MustParsePrefix(except).Addr()) {
					t.Errorf("%s is no part of %s", except, block)
				}
			}
		}
	}
	if seen != 5 {
		t.Errorf("%d networks are left out, want the five", seen)
	}
}

func TestChart_migrates_before_the_pods_of_a_version_start(t *testing.T) {
	t.Parallel()
	for name, roles := range map[string]bool{"small": false, "large": true} {
		all := objects(t, installations[name])
		job := get[*batchv1.Job](t, all, "Job/hub-migrate")
		if job.Annotations["helm.sh/hook"] != "pre-install,pre-upgrade" {
			t.Errorf("%s: the migration is no hook: %v", name, job.Annotations)
		}
		pod := job.Spec.Template.Spec
		first := slices.Concat(pod.InitContainers, pod.Containers)[0]
		if !slices.Equal(first.Args, []string{"migrate"}) || first.EnvFrom[0].SecretRef.Name != "supplyhub-migration" ||
			pod.RestartPolicy != corev1.RestartPolicyNever {
			t.Errorf("%s: the job begins with %v of %v", name, first.Args, first.EnvFrom)
		}
		script, ok := all["ConfigMap/hub-roles"].(*corev1.ConfigMap)
		if ok != roles {
			t.Errorf("%s: the roles' scripts are rendered: %t", name, ok)
			continue
		}
		if !roles {
			continue
		}
		for key, file := range map[string]string{"roles.sql": "../postgres-roles.sql",
			"logins.sql": "../postgres-logins.sql"} {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if strings.TrimSpace(script.Data[key]) != strings.TrimSpace(string(content)) {
				t.Errorf("%s is not %s", key, file)
			}
		}
		if script.Annotations["helm.sh/hook-weight"] >= job.Annotations["helm.sh/hook-weight"] {
			t.Error("the scripts are not there before the job")
		}
	}
}

func TestChart_network_policies_let_workers_out_to_receivers_and_nothing_in(t *testing.T) {
	t.Parallel()
	all := objects(t, installations["small"])
	worker := get[*networkingv1.NetworkPolicy](t, all, "NetworkPolicy/hub-worker")
	if len(worker.Spec.Ingress) != 0 || !slices.Contains(worker.Spec.PolicyTypes, networkingv1.PolicyTypeIngress) {
		t.Errorf("a caller gets into workers: %+v", worker.Spec.Ingress)
	}
	api := get[*networkingv1.NetworkPolicy](t, all, "NetworkPolicy/hub-api")
	if len(api.Spec.Ingress) != 1 || api.Spec.Ingress[0].Ports[0].Port.StrVal != "http" {
		t.Errorf("the api lets in more than its public port: %+v", api.Spec.Ingress)
	}
	outside := slices.ContainsFunc(worker.Spec.Egress, func(rule networkingv1.NetworkPolicyEgressRule) bool {
		return slices.ContainsFunc(rule.To, func(peer networkingv1.NetworkPolicyPeer) bool {
			return peer.IPBlock != nil && peer.IPBlock.CIDR == "0.0.0.0/0" &&
				slices.Contains(peer.IPBlock.Except, "169.254.0.0/16") && slices.Contains(peer.IPBlock.Except, "10.0.0.0/8")
		})
	})
	if !outside {
		t.Error("workers reach no receivers, or the metadata address and private networks too")
	}
}

// An intruder in a pod sends nothing out by the ports of the database, the queue or DNS but to the operator's own.
func TestChart_network_policies_open_no_port_to_the_whole_world_but_receivers(t *testing.T) {
	t.Parallel()
	const given = `{networkPolicy: {databaseTo: [{ipBlock: {cidr: 203.0.113.7/32}}]}}`
	for values, database := range map[string]string{installations["small"]: "10.0.0.0/8", given: "203.0.113.7/32"} {
		all := objects(t, values)
		for _, name := range []string{"api", "worker"} {
			ports := 0
			for _, rule := range get[*networkingv1.NetworkPolicy](t, all, "NetworkPolicy/hub-"+name).Spec.Egress {
				var to []string
				for _, peer := range rule.To {
					if peer.IPBlock != nil {
						to = append(to, peer.IPBlock.CIDR)
					}
				}
				if len(rule.To) == 0 || len(rule.Ports) > 0 && slices.Contains(to, "0.0.0.0/0") {
					t.Errorf("%s: everywhere by %+v", name, rule.Ports)
				}
				for _, port := range rule.Ports {
					if ports++; port.Port.IntVal == 5432 && !slices.Contains(to, database) {
						t.Errorf("%s does not reach the database at %s: %v", name, database, to)
					}
				}
			}
			if ports < 4 {
				t.Errorf("%s: only %d ports", name, ports)
			}
		}
	}
}
