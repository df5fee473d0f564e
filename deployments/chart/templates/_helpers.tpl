{{- define "supplyhub.name" -}}
{{ .Release.Name | trunc 40 | trimSuffix "-" }}
{{- end }}

{{- define "supplyhub.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{/* The labels of a component: call with (list $ "api"). */}}
{{- define "supplyhub.selector" -}}
app.kubernetes.io/name: supplyhub
app.kubernetes.io/instance: {{ (index . 0).Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{- define "supplyhub.labels" -}}
{{ include "supplyhub.selector" . }}
app.kubernetes.io/version: {{ (index . 0).Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ (index . 0).Release.Service }}
helm.sh/chart: {{ (index . 0).Chart.Name }}-{{ (index . 0).Chart.Version }}
{{- end }}

{{- define "supplyhub.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
seccompProfile: { type: RuntimeDefault }
{{- end }}

{{- define "supplyhub.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: { drop: [ALL] }
{{- end }}

{{/* What every pod says: its rights, where its image comes from and which nodes it may run on. */}}
{{- define "supplyhub.anyPod" -}}
automountServiceAccountToken: false
enableServiceLinks: false
securityContext:
  {{- include "supplyhub.podSecurity" . | nindent 2 }}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* What a pod of the component says besides its container: call with (list $ "api"). */}}
{{- define "supplyhub.pod" -}}
{{- $ := index . 0 -}}
{{ include "supplyhub.anyPod" $ }}
terminationGracePeriodSeconds: 45 # the processes drain for up to 30 s, DRAIN_DELAY included
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "supplyhub.selector" . | nindent 8 }}
{{- with $.Values.volumes }}
volumes:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* Where KEDA asks the apis' operator listeners, which answer to no other names than these and ADMIN_HOSTS. */}}
{{- define "supplyhub.backlogHost" -}}
{{ include "supplyhub.name" . }}-backlog.{{ .Release.Namespace }}.svc
{{- end }}

{{/* The environment of a component's container; its own values go before those for both. A command has an api's
environment, and of a worker's what an api has not. */}}
{{- define "supplyhub.env" -}}
{{- $ := index . 0 -}}
{{- $like := get (dict "api" (list "api") "worker" (list "worker") "command" (list "worker" "api")) (index . 1) -}}
{{- $own := dict "ADMIN_ADDR" ":9090" -}}
{{- if has "worker" $like -}}
{{- $_ := set $own "ESTIMATES_WEBHOOK_BASE_URL" (printf "http://%s-api:%v" (include "supplyhub.name" $) $.Values.api.service.port) -}}
{{- end -}}
{{- range $like -}}
{{- $own = mergeOverwrite $own (deepCopy $.Values.config) (index $.Values .).config -}}
{{- end -}}
{{- if and (has "api" $like) (eq $.Values.worker.autoscaling.mode "keda") -}}
{{- $_ := set $own "ADMIN_HOSTS" (join "," (compact (list (include "supplyhub.backlogHost" $) (get $own "ADMIN_HOSTS")))) -}}
{{- end -}}
env:
  {{- range $name, $value := $own }}
  - { name: {{ $name }}, value: {{ $value | quote }} }
  {{- end }}
envFrom:
  - secretRef: { name: {{ index $.Values.secrets (last $like) }} }
{{- with $.Values.volumeMounts }}
volumeMounts:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "supplyhub.probes" -}}
startupProbe:
  httpGet: { path: /livez, port: admin }
  periodSeconds: 1
  failureThreshold: 120
livenessProbe:
  httpGet: { path: /livez, port: admin }
  periodSeconds: 10
  timeoutSeconds: 5
readinessProbe:
  httpGet: { path: /readyz, port: admin }
  periodSeconds: 2
  timeoutSeconds: 3
  failureThreshold: 2
{{- end }}

{{/* The pod of an operator's command, for kubectl run --overrides: the settings of both, and the owner's DATABASE_URL, which comes last. */}}
{{- define "supplyhub.command" -}}
{{- $container := fromYaml (include "supplyhub.env" (list . "command")) -}}
{{- $_ := set $container "envFrom" (append $container.envFrom (dict "secretRef" (dict "name" .Values.secrets.migration))) -}}
{{- $_ := set $container "securityContext" (fromYaml (include "supplyhub.containerSecurity" .)) -}}
{{- $_ := set $container "resources" .Values.api.resources -}}
{{- $container = merge $container (dict "name" "supplyhub-command" "image" (include "supplyhub.image" .) "args" (list "supplier" "list") "stdin" true "tty" true) -}}
{{- $spec := fromYaml (include "supplyhub.pod" (list . "command")) -}}
{{- toJson (dict "spec" (set $spec "containers" (list $container))) -}}
{{- end }}
