"""SecretBox: what must be readable again is encrypted at rest, with keys that can be rotated."""

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from pydantic import SecretStr

from headrace.common.errors import Invalid


class SecretBox:
    """Encrypts with the first key and decrypts with any (Fernet).

    Args:
        keys: Fernet keys separated by commas, newest first.

    Raises:
        Invalid: No key, or one that is none. A service without a key does not start.
    """

    def __init__(self, keys: SecretStr) -> None:
        named = [key.strip() for key in keys.get_secret_value().split(",") if key.strip()]
        try:
            self._fernet = MultiFernet([Fernet(key) for key in named])
        except ValueError as error:
            raise Invalid(
                "HEADRACE_SECRET_KEYS must hold at least one Fernet key; make one with: "
                'python -c "from cryptography.fernet import Fernet; print(Fernet.generate_key().decode())"'
            ) from error

    def seal(self, secret: str) -> bytes:
        """Encrypt."""
        return self._fernet.encrypt(secret.encode())

    def open(self, sealed: bytes) -> str:
        """Decrypt.

        Raises:
            Invalid: It was sealed with a key that is no longer configured.
        """
        try:
            return self._fernet.decrypt(sealed).decode()
        except InvalidToken as error:
            raise Invalid(
                "a stored secret cannot be decrypted: its key is not in HEADRACE_SECRET_KEYS"
            ) from error

    def rotate(self, sealed: bytes) -> bytes:
        """Encrypt again with the newest key. See `open` for errors."""
        return self.seal(self.open(sealed))
