# The wheel of this folder, installed by pip, and a user who is not root. Other machines reach a container's port, so
# `serve` asks for a token: docker run -p 8787:8787 -v recordings:/data -e RECORDER_SERVE_TOKEN=… IMAGE

FROM python:3.13-slim AS build
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY recorder recorder
COPY migrations migrations
COPY docs/sse-recorder.cdx.json docs/
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.13-slim
COPY constraints.txt /wheels/
COPY --from=build /wheels/*.whl /wheels/
RUN pip install --no-cache-dir --constraint /wheels/constraints.txt --find-links /wheels "sse-recorder[postgres]"
RUN useradd --uid 10001 --create-home recorder && install --directory --owner recorder --mode 0700 /data
USER recorder
ENV RECORDER_DB=/data/recorder.db RECORDER_SERVE_HOST=0.0.0.0 RECORDER_SERVE_PORT=8787
VOLUME /data
EXPOSE 8787
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s CMD ["python", "-c", "import os, urllib.request; urllib.request.urlopen('http://127.0.0.1:' + os.environ['RECORDER_SERVE_PORT'] + '/_recorder/healthz', timeout=4)"]
ENTRYPOINT ["recorder"]
CMD ["serve"]
