#!/bin/sh
# Runs a command with a container engine and with the tools and images that deployments/ needs; `make test-deployments`, from
# the root: machine.sh COMMAND…  What is lacking is installed, built or, where no registry is reached, made of Debian's packages.
# All of it stays in the user's cache (some GB), from where the next run takes it: an engine's files are no part of the sources.
# With QUICK=1 the image is not compiled in the engine. The command finds these:
#   SUPPLYHUB_TEST_DEPLOYMENTS  the directory with tree (a copy of the sources), bin, rootfs; DOCKER_HOST, DOCKER_CONFIG
set -eu
dir=${XDG_CACHE_HOME:-$HOME/.cache}/supplyhub/deployments
COMPOSE=v2.40.3 BUILDX=v0.29.1 HELM=v4.3.1 KUBERNETES=1.37.2 KEDA=v2.21.0
mkdir -p "$dir/bin" "$dir/config/cli-plugins"
export SUPPLYHUB_TEST_DEPLOYMENTS="$dir" DOCKER_CONFIG="$dir/config" PATH="$dir/bin:$PATH" CGO_ENABLED=0 GOFLAGS=-mod=mod
say() { echo "-- $*"; }

need() { # a program, and Debian's package of it
	command -v "$1" >/dev/null || [ -x "/usr/sbin/$1" ] && return
	[ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || { echo "this needs $1: install $2" >&2; exit 1; }
	say "installing $2"
	apt-get install --no-install-recommends --yes "$2" >"$dir/log" 2>&1 || { tail "$dir/log" >&2; exit 1; }
}

built() { # a file, a module and its version, a package, flags: builds the program from the module itself
	[ -x "$1" ] && return
	say "building $2@$3"
	source=$dir/source-$(basename "$1")
	rm -rf "$source"
	cp -r "$(go mod download -json "$2@$3" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')" "$source"
	chmod -R u+w "$source"
	go -C "$source" build -trimpath -ldflags "-s -w ${5:-}" -o "$1" "$4"
	rm -rf "$source"
}

apiserver() { # Kubernetes' module names its parts by directories that are not in it
	[ -x "$dir/bin/kube-apiserver" ] && return
	say "building kube-apiserver v$KUBERNETES: some minutes"
	module=$dir/source-kubernetes
	mkdir -p "$module"
	printf 'module kubernetes.invalid/apiserver\n\ngo 1.26.0\n\nrequire k8s.io/kubernetes v%s\n' "$KUBERNETES" >"$module/go.mod"
	printf 'package apiserver\n\nimport _ "k8s.io/kubernetes/cmd/kube-apiserver/app"\n' >"$module/apiserver.go"
	sed -n 's/^\t\(k8s.io\/[a-z0-9.-]*\) => .\/staging.*/\1/p' "$(go mod download -json "k8s.io/kubernetes@v$KUBERNETES" |
		sed -n 's/^\t"GoMod": "\(.*\)",$/\1/p')" | while read -r part; do
		echo "replace $part => $part v0.${KUBERNETES#1.}" >>"$module/go.mod"
	done
	go -C "$module" mod tidy >"$dir/log" 2>&1
	version=k8s.io/component-base/version minor=${KUBERNETES#1.}
	go -C "$module" build -trimpath -ldflags "-s -w -X $version.gitVersion=v$KUBERNETES -X $version.gitMajor=1 -X $version.gitMinor=${minor%.*}" -o "$dir/bin/kube-apiserver" k8s.io/kubernetes/cmd/kube-apiserver
}

# The tools.
need docker docker.io
need openssl openssl
built "$dir/bin/helm" helm.sh/helm/v4 "$HELM" ./cmd/helm
apiserver
need etcd etcd-server
go mod download "github.com/kedacore/keda/v2@$KEDA"
cp "$(go env GOMODCACHE)/github.com/kedacore/keda/v2@$KEDA/config/crd/bases/keda.sh_scaledobjects.yaml" "$dir/"
docker compose version >/dev/null 2>&1 || built "$dir/config/cli-plugins/docker-compose" github.com/docker/compose/v2 "$COMPOSE" ./cmd \
	"-X github.com/docker/compose/v2/internal.Version=$COMPOSE"
# Built in Compose's module, it shares most of what was compiled for that.
docker buildx version >/dev/null 2>&1 || built "$dir/config/cli-plugins/docker-buildx" github.com/docker/compose/v2 "$COMPOSE" \
	github.com/docker/buildx/cmd/buildx \
	"-X github.com/docker/buildx/version.Version=$BUILDX"

# The engine: the machine's, or our own.
if ! docker info >/dev/null 2>&1; then
	need dockerd docker.io
	need iptables iptables
	export DOCKER_HOST="unix://$dir/engine.sock"
	if ! docker info >/dev/null 2>&1; then
		PATH="$PATH:/usr/sbin" dockerd --data-root "$dir/engine" --exec-root "$dir/engine-run" --pidfile "$dir/engine.pid" \
			-H "$DOCKER_HOST" >"$dir/engine.log" 2>&1 &
		engine=$!
		trap 'kill $engine; wait $engine || true' EXIT
		trap 'exit 130' INT TERM
		until docker info >/dev/null 2>&1; do
			kill -0 $engine 2>/dev/null || { tail "$dir/engine.log" >&2; echo "no container engine runs on this machine" >&2; exit 1; }
			sleep 0.2
		done
	fi
fi

# The sources as a person has them.
rm -rf "$dir/tree"
mkdir -p "$dir/tree"
git ls-files -z --cached --others --exclude-standard | tar -c --null -T - | tar -x -C "$dir/tree"
go build -tags nomsgpack -trimpath -ldflags '-s -w' -o "$dir/bin/" ./cmd/api ./cmd/worker

# The images. Debian with systemd, for the units, is always made here.
need debootstrap debootstrap
if [ ! -e "$dir/rootfs.tar" ]; then
	say "making Debian's root file system"
	rm -rf "$dir/rootfs"
	PATH="$PATH:/usr/sbin" debootstrap --variant=minbase \
		--include=ca-certificates,systemd,systemd-sysv,postgresql,nginx-light,busybox-static,curl bookworm "$dir/rootfs" >"$dir/log" 2>&1 ||
		{ tail "$dir/log" >&2; exit 1; }
	cp /etc/ssl/certs/ca-certificates.crt "$dir/rootfs/etc/ssl/certs/" # a machine's proxy may have an authority of its own
	ln -s /bin/busybox "$dir/rootfs/usr/local/bin/wget"
	tar -C "$dir/rootfs" -c . >"$dir/rootfs.part" && mv "$dir/rootfs.part" "$dir/rootfs.tar"
	rm -rf "$dir/rootfs"
fi
docker image inspect supplyhub-test/debian >/dev/null 2>&1 || docker import "$dir/rootfs.tar" supplyhub-test/debian >/dev/null

image() { # a name in deployments/: prints its reference without the digest
	sed -n "s/^.*[ :]\(\(gcr.io\/\)\{0,1\}[a-z/-]*$1[a-z0-9-]*:[a-z0-9.-]*\)@sha256.*/\1/p" deployments/Dockerfile deployments/compose.yaml | head -1
}
substitute() { # a name, and lines of a Dockerfile that copy from the context
	docker image inspect "$(image "$1")" >/dev/null 2>&1 && return
	say "making $(image "$1")"
	printf 'FROM supplyhub-test/debian\n%s\n' "$2" >"$dir/context/Dockerfile"
	docker build -q -t "$(image "$1")" "$dir/context" >/dev/null
}
if timeout 30 docker pull -q "$(sed -n 's/^FROM \(gcr.io[^ ]*\)$/\1/p' deployments/Dockerfile)" >"$dir/log" 2>&1; then
	say "a registry is reached: the images are those that are shipped"
else
	say "no registry is reached: the images are made of Debian's packages, and the digests are left out"
	sed -i 's/@sha256:[0-9a-f]*//' "$dir/tree/deployments/Dockerfile" "$dir/tree/deployments/compose.yaml"
	rm -rf "$dir/context"
	mkdir -p "$dir/context"
	built "$dir/bin/caddy" github.com/caddyserver/caddy/v2 "v$(image caddy | sed 's/.*:\([0-9.]*\).*/\1/')" ./cmd/caddy
	[ -x "$dir/bin/nats-server" ] || GOFLAGS='' go build -o "$dir/bin/nats-server" github.com/nats-io/nats-server/v2
	cp "$dir/bin/caddy" "$dir/bin/nats-server" deployments/checks/postgres.sh "$dir/context"
	docker image inspect "$(image golang)" >/dev/null 2>&1 || cp -r "$(go env GOROOT)" "$dir/context/go"
	substitute golang "COPY go /usr/local/go
ENV PATH=/usr/local/go/bin:/usr/bin:/bin GOPATH=/go GOTOOLCHAIN=local SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt GOPROXY=$(go env GOPROXY)"
	substitute static 'RUN useradd --uid 65532 nonroot'
	substitute postgres 'COPY postgres.sh /usr/local/bin/docker-entrypoint.sh
RUN mkdir -p /var/lib/postgresql/data && chown postgres /var/lib/postgresql/data && chmod 3777 /run/postgresql && rm -f /usr/local/bin/psql
ENV PATH=/usr/lib/postgresql/15/bin:/usr/local/bin:/usr/bin:/bin
ENTRYPOINT ["sh", "/usr/local/bin/docker-entrypoint.sh"]'
	substitute nats 'COPY nats-server /usr/local/bin/
ENTRYPOINT ["nats-server"]'
	substitute caddy 'COPY caddy /usr/local/bin/
CMD ["caddy", "run", "--config", "/etc/caddy/Caddyfile", "--adapter", "caddyfile"]'
	rm -rf "$dir/context"
fi
# With QUICK=1 the image has the binaries that this machine's Go built: the Dockerfile's first stage takes minutes.
if [ -n "${QUICK:-}" ]; then
	mkdir -p "$dir/tree/pkg/out/data"
	cp "$dir/bin/api" "$dir/bin/worker" "$dir/tree/pkg/out/"
	sed -n '/^FROM gcr/,$p' "$dir/tree/deployments/Dockerfile" | sed 's|COPY --from=build|COPY|; s|/out/|pkg/out/|g' >"$dir/Dockerfile"
	mv "$dir/Dockerfile" "$dir/tree/deployments/"
fi
unset CGO_ENABLED
status=0
GOFLAGS='' "$@" || status=$?
say "not seen here: a kubelet, network policies, KEDA's operator, cloud balancers, a registry's images where none is reached"
exit $status
