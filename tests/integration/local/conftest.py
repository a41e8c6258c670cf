"""The real servers, as other tests get them."""

from tests.support.servers import nats_server, postgres_server, redis_server, server_folder

__all__ = ["nats_server", "postgres_server", "redis_server", "server_folder"]
