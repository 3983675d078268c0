#!/bin/sh
# rootfs.sh BINARY FOLDER: fills FOLDER with a root file system that contains the server, the libraries with which it is
# linked, their licences, and the few files that the C library reads, but no shell.
set -eu
binary=$1 root=$2
mkdir -p "$root/usr/bin" "$root/usr/lib" "$root/usr/lib64" "$root/etc" "$root/models"
ln -s usr/bin "$root/bin"
ln -s usr/lib "$root/lib"
ln -s usr/lib64 "$root/lib64"
mkdir -m 1777 "$root/tmp"
strip -o "$root/usr/bin/slipway" "$binary"
ln -s slipway "$root/usr/bin/tensorflow_model_server"
ln -s slipway "$root/usr/bin/tf_serving_entrypoint.sh"

# ldd prints "name => path (address)" for a library, or "path (address)" for the loader.
ldd "$binary" | sed -n 's/^[[:space:]]*\(.* => \)\?\(\/[^ ]*\) (0x.*/\2/p' | while read -r library; do
    folder=$(dirname "$library")
    install -D -m 755 "$(readlink -f "$library")" "$root/usr/${folder#/usr}/${library##*/}"
    dpkg-query -S "$(readlink -f "$library")" "$library" 2>/dev/null || :
done | sed 's/[:,].*//' | sort -u | while read -r package; do
    install -D -m 644 "/usr/share/doc/$package/copyright" "$root/usr/share/doc/$package/copyright"
done

printf 'root:x:0:0:root:/:/sbin/nologin\nnobody:x:65534:65534:nobody:/:/sbin/nologin\n' \
    >"$root/etc/passwd"
printf 'root:x:0:\nnogroup:x:65534:\n' >"$root/etc/group"
printf 'hosts: files dns\n' >"$root/etc/nsswitch.conf"
