# The n-body sample of NVIDIA's CUDA samples: compiled in one image, shipped in a small one. The samples have the
# version of CUDA.
ARG CUDA_VERSION=12.4.1
FROM nvcr.io/nvidia/cuda:${CUDA_VERSION}-devel-ubuntu22.04 AS build
ARG CUDA_VERSION=12.4.1

ARG DEBIAN_FRONTEND=noninteractive
RUN apt-get update \
    && apt-get install -y --no-install-recommends \
        ca-certificates curl freeglut3-dev libgl1-mesa-dev libglu1-mesa-dev

# without the libraries make only says so, and succeeds: then there is nothing to install here
WORKDIR /usr/local/src
RUN url=https://github.com/NVIDIA/cuda-samples/archive/refs/tags/v${CUDA_VERSION}.tar.gz \
    && curl --fail --location --silent --show-error --output samples.tar.gz "$url" \
    && tar -xzf samples.tar.gz \
    && cd cuda-samples-${CUDA_VERSION}/Samples/5_Domain_Specific/nbody \
    && make \
    && install -m 755 nbody /usr/local/bin/nbody

FROM nvcr.io/nvidia/cuda:${CUDA_VERSION}-base-ubuntu22.04
ARG CUDA_VERSION=12.4.1

LABEL software="nbody" \
    software.version="${CUDA_VERSION}" \
    software.source="https://github.com/NVIDIA/cuda-samples"

ARG DEBIAN_FRONTEND=noninteractive
RUN apt-get update \
    && apt-get install -y --no-install-recommends freeglut3 libgl1 libglu1-mesa \
    && rm -rf /var/lib/apt/lists/*

COPY --from=build /usr/local/bin/nbody /usr/local/bin/nbody
RUN if ldd /usr/local/bin/nbody | grep 'not found'; then exit 1; fi; nbody -help

ENTRYPOINT ["nbody"]
