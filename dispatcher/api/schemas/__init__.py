"""The JSON of the API: what requests and answers may say, as structs, without any server."""
