"""Messages whose schemas are in a registry: Avro, JSON Schema and Protobuf, read into columns."""
