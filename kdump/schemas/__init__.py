"""Schema registries offline: what the topic ``_schemas`` says of schemas, and the keys and values that they describe.

``registry`` folds the records of the topic, ``topic`` finds and reads it, ``decoder`` decodes keys and values with it;
``avro`` and ``protobuf`` compile schemas and need the extra ``[schemas]``.
"""
