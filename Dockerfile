# The wheel of this folder, installed by pip, and a user who is not root. Other machines reach a container's port, so
# `serve` asks for a token: docker run -p 8787:8787 -v recordings:/data -e RECORDER_SERVE_TOKEN=… IMAGE

FROM python:3.13-slim AS build
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY recorder recorder
COPY migrations migrations
COPY tools tools
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.13-slim
COPY constraints.txt /wheels/
COPY --from=build /wheels/*.whl /wheels/
RUN pip install --no-cache-dir --constraint /wheels/constraints.txt "$(echo /wheels/*.whl)[postgres,ship]"
RUN useradd --uid 10001 --create-home recorder && install --directory --owner recorder --mode 0700 /data
USER recorder
ENV RECORDER_DB=/data/recorder.db XDG_DATA_HOME=/data RECORDER_SERVE_HOST=0.0.0.0 RECORDER_SERVE_PORT=8787
VOLUME /data
EXPOSE 8787
STOPSIGNAL SIGTERM
# A 401 is an answer, too: of a recorder whose token is not in the variable.
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s CMD ["python", "-c", "import http.client, os, sys; c = http.client.HTTPConnection('127.0.0.1', int(os.environ['RECORDER_SERVE_PORT']), timeout=4); c.request('GET', '/_recorder/healthz', headers={'X-Recorder-Token': os.environ.get('RECORDER_SERVE_TOKEN', '')}); sys.exit(c.getresponse().status not in (200, 401))"]
ENTRYPOINT ["recorder"]
CMD ["serve"]
