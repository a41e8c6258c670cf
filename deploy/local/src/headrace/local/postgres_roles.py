"""One database, one role per service, one schema per role: nobody sees another's tables."""

from collections.abc import Mapping
from urllib.parse import urlsplit

import asyncpg

DATABASE = "headrace"


def role_of(service: str) -> str:
    """The role of a service."""
    return f"headrace_{service}"


def service_url(superuser_url: str, service: str, password: str, *, database: str = DATABASE) -> str:
    """A service's own way into a database, as its settings take it."""
    address = urlsplit(superuser_url).netloc.rpartition("@")[2]
    return f"postgresql+asyncpg://{role_of(service)}:{password}@{address}/{database}"


def database_url(superuser_url: str, database: str) -> str:
    """The superuser's way into another database of the same server."""
    return urlsplit(superuser_url)._replace(path=f"/{database}").geturl()


async def prepare_database(
    superuser_url: str, passwords: Mapping[str, str], database: str = DATABASE
) -> None:
    """Make the database, the roles and their schemas; what is there already is left as it is.

    The right to log in comes last, so that a service that waits for its role never finds half of it.

    Args:
        superuser_url: The superuser's way into any database of the server.
        passwords: The password of each service's role.
        database: The database's name.
    """
    await _run(superuser_url, *(_role(service) for service in passwords))
    await create_database(superuser_url, passwords, database)
    await _run(
        database_url(superuser_url, database), _CLOSED_PUBLIC, *(_schema(service) for service in passwords)
    )
    await _run(superuser_url, *(_login(service, password) for service, password in passwords.items()))


async def create_database(
    superuser_url: str, services: Mapping[str, str], database: str, *, template: str = "template1"
) -> None:
    """Make a database that the services' roles may connect to, and nobody else.

    Args:
        superuser_url: The superuser's way into any database of the server.
        services: The services by name.
        database: The new database's name; nothing is made where it exists.
        template: What it is a copy of.
    """
    connection = await asyncpg.connect(superuser_url)
    try:
        if not await connection.fetchval("SELECT true FROM pg_database WHERE datname = $1", database):
            await connection.execute(f'CREATE DATABASE "{database}" TEMPLATE "{template}"')
        roles = ", ".join(role_of(service) for service in services)
        await connection.execute(
            f'REVOKE ALL ON DATABASE "{database}", postgres, template1 FROM PUBLIC; '
            f'GRANT CONNECT ON DATABASE "{database}" TO {roles}'
        )
    finally:
        await connection.close()


_CLOSED_PUBLIC = "REVOKE ALL ON SCHEMA public FROM PUBLIC"


def _role(service: str) -> str:
    role = role_of(service)
    return (
        f"DO $$ BEGIN IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = '{role}') "
        f"THEN CREATE ROLE {role} NOSUPERUSER NOCREATEDB NOCREATEROLE NOLOGIN; END IF; END $$"
    )


def _schema(service: str) -> str:
    return f"CREATE SCHEMA IF NOT EXISTS {service} AUTHORIZATION {role_of(service)}"


def _login(service: str, password: str) -> str:
    return f"ALTER ROLE {role_of(service)} LOGIN PASSWORD '{password}'"


async def _run(url: str, *statements: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(";\n".join(statements))
    finally:
        await connection.close()
