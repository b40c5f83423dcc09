"""Files of HDFS over HTTP (WebHDFS), without Java."""
