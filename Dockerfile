# rtfx with its rivals on the CUDA 13 runtime. The driver is that of the host.
#
#   docker build --tag rtfx .                # `--build-arg RIVALS=nemo` installs fewer rivals, `RIVALS=` none
#   docker run --rm --gpus all --volume "$PWD/runs:/rtfx/runs" rtfx run configs/quickstart.json
FROM ubuntu:24.04 AS build
WORKDIR /rtfx
# hadolint ignore=DL3008
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates git make && rm -rf /var/lib/apt/lists/*
COPY . .
RUN make wheel

FROM nvidia/cuda:13.0.2-base-ubuntu24.04
WORKDIR /rtfx
# Decoders in Python need Python's shared library.
# hadolint ignore=DL3008
RUN apt-get update && apt-get install -y --no-install-recommends ffmpeg libpython3.12t64 python3-venv && rm -rf /var/lib/apt/lists/*
COPY requirements-torch.txt ./
COPY --from=build /rtfx/dist/*.whl ./dist/
RUN python3 -m venv .venv && .venv/bin/pip install --no-cache-dir --constraint requirements-torch.txt "$(ls dist/rtfx-*.whl)[report]"
COPY rivals ./rivals
ARG RIVALS="nemo torchaudio wfst"
RUN for name in $RIVALS; do PIP_NO_CACHE_DIR=1 rivals/environment.sh "$name" || exit; done
COPY configs ./configs
COPY datasets/quickstart ./datasets/quickstart
COPY models/quickstart ./models/quickstart
ENV PATH=/rtfx/.venv/bin:$PATH OMP_WAIT_POLICY=passive
ENTRYPOINT ["rtfx"]
CMD ["doctor"]
