"""The routes, one file a resource, and the OpenAPI document that is made of their table."""
