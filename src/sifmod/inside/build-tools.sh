#!/bin/sh
# build-tools.sh [PACKAGE...]: unpack compilers, git and these packages of the image's own distribution below /tmp/tools, with what they
# need and the image lacks. It takes no root: nothing is installed, and their scripts do not run.
# Exit status: 3 if the image has no apt; the package manager that it has instead is printed.
set -eu
umask 022
if ! command -v apt-get >/dev/null || ! command -v dpkg >/dev/null; then
    for manager in dnf microdnf yum zypper apk; do
        if command -v "$manager" >/dev/null; then
            echo "$manager"
            break
        fi
    done
    exit 3
fi
mkdir -p /tmp/apt/lists/partial /tmp/apt/cache/archives/partial /tmp/tools/usr/bin
apt() {
    apt-get -qq -o Dir::State::lists=/tmp/apt/lists -o Dir::Cache=/tmp/apt/cache -o APT::Sandbox::User= -o Debug::NoLocking=true \
        -o Acquire::Languages=none -o Acquire::Retries=3 "$@"
}
apt update
apt install -y --no-install-recommends --download-only g++ make libc6-dev git "$@"
cd /tmp/tools
for package in /tmp/apt/cache/archives/*.deb; do dpkg -x "$package" .; done
# links of the image, which folders would hide
for folder in bin lib lib32 lib64 libx32 sbin; do
    if [ -L "/$folder" ] && [ -d "$folder" ]; then
        mkdir -p "usr/$folder"
        cp -a "$folder/." "usr/$folder/"
        rm -r "$folder"
    fi
done
# what scripts of the packages would make
ln -s gcc usr/bin/cc
ln -s g++ usr/bin/c++
rm -rf etc var usr/share/doc usr/share/info usr/share/locale usr/share/man
