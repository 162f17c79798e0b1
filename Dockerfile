# docker build --target cpu -t omg .          docker run --rm -v "$PWD/results:/work/results" omg demo
# docker build --target cuda -t omg-cuda .    docker run --rm --gpus all -v "$PWD/results:/work/results" omg-cuda demo
#
# The wheel is built from the source and installed without it, with the exact versions of constraints.txt.
ARG PYTHON=3.11

FROM python:${PYTHON}-slim AS wheel
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN pip install --no-cache-dir build \
    && python -m build --wheel --outdir /wheels

FROM python:${PYTHON}-slim AS base
# A user's folder for the compilation cache; results are written where the command is run.
RUN useradd --create-home --uid 1000 omg \
    && mkdir --parents /work/results \
    && chown --recursive omg /work
WORKDIR /work
COPY constraints.txt /wheels/
COPY --from=wheel /wheels/ /wheels/
ENTRYPOINT ["omg"]
CMD ["--help"]

# NVIDIA's libraries come as packages with the extra; the host brings the driver and its container toolkit.
FROM base AS cuda
RUN pip install --no-cache-dir --constraint /wheels/constraints.txt "$(ls /wheels/*.whl)[cuda]"
USER omg

FROM base AS cpu
RUN pip install --no-cache-dir --constraint /wheels/constraints.txt "$(ls /wheels/*.whl)"
USER omg
