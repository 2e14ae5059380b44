# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# Sourced by scripts that install or download Debian packages, after env.sh.

installed() { dpkg-query -W -f='${Status}' "$1" 2>/dev/null | grep -q 'ok installed'; }

apt_updated=
apt_update() {
	[ -n "$apt_updated" ] || apt-get update -qq || note "apt-get update failed; going on with what is known"
	apt_updated=1
}

apt_install() {
	local missing=() p
	for p; do
		installed "${p%%/*}" || missing+=("$p")
	done
	[ ${#missing[@]} -eq 0 ] && return 0
	apt_update
	note "installing: ${missing[*]}"
	apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

candidate() { apt-cache policy "$1" 2>/dev/null | awk '/Candidate:/ && $2 != "(none)" { print $2 }'; }

codename() { (. /etc/os-release && printf '%s\n' "${VERSION_CODENAME:-}"); }

# The first enabled apt source of this suite as "types|URIs|components|signed-by" from both file formats.
apt_source() {
	local suite=$1 files=()
	mapfile -t files < <(ls /etc/apt/sources.list.d/*.sources 2>/dev/null)
	if [ ${#files[@]} -gt 0 ]; then
		awk -v suite="$suite" '
			function flush() {
				if (uris != "" && !off && (" " suites " ") ~ (" " suite " ")) {
					print uris "|" (key == "" ? "-" : key); found = 1; exit
				}
				uris = suites = key = ""; off = 0
			}
			FNR == 1 || /^[ \t]*$/ { flush() }
			/^#/ { next }
			tolower($1) == "uris:" { uris = $2 }
			tolower($1) == "suites:" { sub(/^[^:]*:[ \t]*/, ""); suites = $0 }
			tolower($1) == "signed-by:" { key = $2 }
			tolower($1) == "enabled:" { off = (tolower($2) == "no") }
			END { if (!found) flush() }' "${files[@]}" | head -n 1
	fi
	cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list 2>/dev/null | awk -v suite="$suite" '
		$1 == "deb" {
			key = "-"; i = 2
			if ($2 ~ /^\[/) {
				while (i <= NF) {
					if (match($i, /signed-by=[^] ]*/)) key = substr($i, RSTART + 10, RLENGTH - 10)
					if ($i ~ /\]$/) break
					i++
				}
				i++
			}
			if ($(i + 1) == suite) { print $i "|" key; exit }
		}'
}

# debian_source PACKAGE...: unpacks these source packages of this release here; the machine's own list may have binaries only.
debian_source() {
	local uri key apt=(-qq -o "Dir::Etc::sourcelist=$PWD/sources.list" -o Dir::Etc::sourceparts=- -o "Dir::State::lists=$PWD/lists")
	IFS='|' read -r uri key < <(apt_source "$(codename)") || true
	[ -n "${uri:-}" ] || return 1
	[ "$key" = - ] || key="[signed-by=$key]"
	mkdir -p lists/partial
	echo "deb-src ${key#-} $uri $(codename) main" >sources.list
	apt-get "${apt[@]}" update && apt-get "${apt[@]}" source "$@"
}
