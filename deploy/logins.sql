-- The logins of the collector and of the viewer. `recorder db upgrade --roles` gives the two roles their rights.
\getenv collector COLLECTOR_PASSWORD
\getenv viewer VIEWER_PASSWORD
CREATE ROLE recorder_writer NOLOGIN;
CREATE ROLE recorder_reader NOLOGIN;
CREATE ROLE collector LOGIN PASSWORD :'collector' IN ROLE recorder_writer;
CREATE ROLE viewer LOGIN PASSWORD :'viewer' IN ROLE recorder_reader;
