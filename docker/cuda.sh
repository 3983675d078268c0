#!/bin/sh
# Adds NVIDIA's compiler and libraries to the build of the image:
#   cuda.sh install FOLDER            installs the compiler, and the libraries that the server loads, from PyPI
#   cuda.sh configure FOLDER          configures the release build with that compiler
#   cuda.sh libraries FOLDER ROOTFS   copies the libraries and their licences to the image's root file system
# The driver (libcuda.so.1) is not included, because the container runtime adds the host's driver.
set -eu
verb=$1 folder=$2
toolkit=$folder/lib/python3.11/site-packages/nvidia/cu13
# All parts of the compiler must have the same minor version.
compiler="nvidia-cuda-nvcc>=13,<13.1 nvidia-nvvm>=13,<13.1 nvidia-cuda-crt>=13,<13.1 nvidia-cuda-runtime>=13,<13.1"
libraries="nvidia-cublas>=13,<14 nvidia-cudnn-cu13>=9,<10"

case $verb in
install)
    apt-get -qq update
    DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends python3-venv
    python3 -m venv "$folder"
    # shellcheck disable=SC2086
    "$folder/bin/pip" install -q --no-cache-dir $compiler
    # shellcheck disable=SC2086
    "$folder/bin/pip" install -q --no-cache-dir --no-deps $libraries
    ;;
configure)
    CUDAToolkit_ROOT=$toolkit cmake --preset release -DSLIPWAY_CUDA=on
    ;;
libraries)
    rootfs=$3
    packages=$folder/lib/python3.11/site-packages
    # cuDNN loads its parts from its own folder.
    for library in "$packages"/nvidia/*/lib/libcublasLt.so.13 "$packages"/nvidia/*/lib/libcudnn*.so.9; do
        install -m 755 "$library" "$rootfs/usr/lib/"
    done
    for package in nvidia_cublas nvidia_cudnn_cu13; do
        find "$packages" -path "*/$package-*.dist-info/*" -iname 'licen[cs]e*' -exec \
            install -D -m 644 {} "$rootfs/usr/share/doc/$package/copyright" \;
    done
    ;;
esac
