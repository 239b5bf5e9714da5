#!/usr/bin/env bash
#
# base.sh ROOT SUITE MIRRORS SOURCE: makes a Debian root with compiler and packaged Open MPI in the folder ROOT.
#
# Called by test/stock/run in a mount namespace of its own. Nothing of the host gets in but the name server,
# the apt proxy and the checkout, whose contrib/setup installs the packages as on a new machine.

set -eu -o pipefail
root=$1 suite=$2 mirrors=$3 source=$4

rm -rf --one-file-system "$root"
for mirror in $(cat "$mirrors"); do
    if debootstrap --variant=minbase --include=ca-certificates,debian-archive-keyring "$suite" "$root" "$mirror"; then
        break
    fi
    rm -rf --one-file-system "$root"
done
[ -x "$root/usr/bin/apt-get" ]
printf 'deb %s %s main\n' "$mirror" "$suite" >"$root/etc/apt/sources.list"
apt-config dump Acquire::http::Proxy | grep . >"$root/etc/apt/apt.conf.d/90proxy" || true
printf 'Acquire::Languages "none";\nAPT::Install-Recommends "false";\n' >"$root/etc/apt/apt.conf.d/91small"
cp -L /etc/resolv.conf "$root/etc/resolv.conf"
# Services have no business in here.
printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
chmod 755 "$root/usr/sbin/policy-rc.d"

mount -t proc proc "$root/proc"
mount --bind /dev "$root/dev"
mkdir -p "$root/src"
mount --bind "$source" "$root/src"
chroot "$root" env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive \
    bash -e -c 'apt-get -q update
                /src/contrib/setup --groups none --packages-only
                apt-get clean
                rm -rf /root/.cache /var/lib/apt/lists/*'
umount "$root/src" "$root/dev" "$root/proc"
rmdir "$root/src"
