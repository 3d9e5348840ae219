"""Key pairs for tests of encrypted segments. The first is fixed, and protects nothing."""

import base64
from functools import cache
from pathlib import Path

from kafka_zk.storage.tiered.segment_encryption import KeyPairFiles

PRIVATE_PEM = """\
-----BEGIN PRIVATE KEY-----
MIIEvAIBADANBgkqhkiG9w0BAQEFAASCBKYwggSiAgEAAoIBAQDIsE4RJSflcVnJ
mlpno/BrDHjxZF9TXk7/zy4ESO12u1PjCD4wDH8vL1pVskA18L1kZIhS0SEvp3WH
kDimkYNkSq0sBo+iYvmhYpAeJistXQJFQq/n5r/AnmIDkGAQneQ9lZ8vCTLVFDVE
+wdlkMCvgxWOUByeXJrH98bfHJWgcjZF5RBRrTHd7PQoee3Byzd9NSOHzOBThMIF
Q3H+g79MvLTRnhbAnE9qT7PpK92gGC69XKvjztOV+tpOhclSuxLalOHG8y6aJvng
Q7/qY6F2x7zOD2AF8LuJLrheer39lSFzNURYF1ElTs7Ifq+OYG2qvEROciX1PQqD
AkSEEb2bAgMBAAECggEABZVcy/6mpNbfJ/a9Zn4Z0EChP3C1c5JUzFUtSJKRg2jO
0AAzYA7Y8wJ0QZzF9eTkFV5JVKnbgdc83oVVWNJaP3i8Z1R/ZoXZFXOyjW7ZFgKt
GimIJKw3etptNlWBTApjMTtvxFU92Xkdykou+H/AfKGUVfNF+I9HAc0+S911uZL8
mnSsgHoK034hm1j0ia8LkjJ0Hzya6lGOglU7enHbEYtO26EEfvKBBvvJ5BczXn82
Xf9WCIj9TQtc3vc5iGwg9nYkjgSOALLTxdBG9hbPik4JRrZMTgkFYSVjjvAco58M
fA6io96VAMRgPpI/gxC+Sqp1Kyy4i6aUMHDCiNXTAQKBgQDqE1IdJzCZtU/RICuD
NgRU2XmkTwiuuxPL0LH8xVoy3aWrOJAGkuJhQFK1NzU0OCPHmTC320axIrWaojNo
Nv07Qg3Kr4epskKtI4GEVYU7EmP3XQhmkstCpCpGZ8PSjvucW6Lijs4hOcykV2Ox
wcV2uMUA9kkW9+YLXFfXh6jtWwKBgQDbfG73T2IEDYWs+weTdCd+N850CHWkCLJd
1nEBM+unGdwbEDohx9dTI2pKz2NorSNc9MHmAt2doAMtj9p/2/PvwXapLkpJqtc5
FaxQlyWuxtMHU1JeNjZ/DIC+HAOjfW66qf6Uums6rpFH4wr5TyS+HlJEVP5SbJFV
NwGeduIkwQKBgHb0NKGeHeOvMY3MNHCszcy07E1k4LuzVJ8aQql7PZhl7WAzEXZV
xPe5MY7oLICKGxy/K/PzWlyAkBuyXD+U2mH38nxTcbT6Y0oLpjEzKM7ZTLYTsEY4
SVVnihhXeTuS8CkIpKFQA079SZMm2gImwAvSYENZ5dDnUB/r4LQmO+HLAoGAbebw
6YUmX0EmHmfUc1FGNT1cc12JCooQRkyKaT/GT/Xy8No/QYr/lvG016Dg9hk8C9/C
95mXvsXQ0Y+mqT9J9lO5Rx2WtSyGeF8R2YjVpZ6JLLHcHLCouRVZodgFOmgkefOF
NpPh/ZBLzuMxK4UlsM0eBHlKn5sdar4QYXjF5AECgYAI0ytQc/Jlbd1xAo+vgD7w
76e0DA5lZkXSekPUt72hSCX75tQ9pB3v7m2keI6jnRdgjDxS5afU4yXd5lAzHUv0
rGGPOsI+cpoicjy59LB67kkeqT1+SIGV1tTyTgmGTxAleaLIq0gvlzngpWfOgKV4
R2Gg3wBG9MoU3HiSTU34uw==
-----END PRIVATE KEY-----
"""
PUBLIC_PEM = """\
-----BEGIN PUBLIC KEY-----
MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAyLBOESUn5XFZyZpaZ6Pw
awx48WRfU15O/88uBEjtdrtT4wg+MAx/Ly9aVbJANfC9ZGSIUtEhL6d1h5A4ppGD
ZEqtLAaPomL5oWKQHiYrLV0CRUKv5+a/wJ5iA5BgEJ3kPZWfLwky1RQ1RPsHZZDA
r4MVjlAcnlyax/fG3xyVoHI2ReUQUa0x3ez0KHntwcs3fTUjh8zgU4TCBUNx/oO/
TLy00Z4WwJxPak+z6SvdoBguvVyr487TlfraToXJUrsS2pThxvMumib54EO/6mOh
dse8zg9gBfC7iS64Xnq9/ZUhczVEWBdRJU7OyH6vjmBtqrxETnIl9T0KgwJEhBG9
mwIDAQAB
-----END PUBLIC KEY-----
"""
DATA_KEY = bytes(range(32))
ENCRYPTED_DATA_KEY = base64.b64decode(
    "a3UNL5bX38uijHojutjKSHlDAdLhcTuCm1f+YsP8LbjpjzUj1tfm0rdKLGWYK3SQsjVh27tA+UA49g3unWnlpE2Gw1N3mUHgHj9b"
    "hZThIJvfZqeLCfwX8oUoZARr6DJDZMHCFNJMBq4U0jqCDnU5iCYWRZ3TgvLdyBlibmfGxlympREuyD/OvoPPGS/5T0CA9iigXwvG"
    "t2R7zt+X7mj8t0/agrFJ2wFViYb7maKv0DLTxSex1Kp6L0Fi1t5LburI+cLAmuPcFOBkW16fiT3oe/FC/ReNk0BM7/+PDA4skybY"
    "3aXdAla6FOr6fBmiO/2kHUcPYJrboJXbq7rwuYR1tA=="
)
"""The data key as OpenSSL 3.0 encrypted it: ``openssl pkeyutl -encrypt -pkeyopt rsa_padding_mode:oaep -pkeyopt
rsa_oaep_md:sha3-512 -pkeyopt rsa_mgf1_md:sha3-512``."""


def write_pair(folder: Path, name: str, private_pem: str = PRIVATE_PEM, public_pem: str = PUBLIC_PEM) -> KeyPairFiles:
    """Write the files of a pair."""
    public, private = folder / f"{name}.public.pem", folder / f"{name}.private.pem"
    public.write_text(public_pem)
    private.write_text(private_pem)
    return KeyPairFiles(str(public), str(private))


@cache
def other_pair() -> tuple[str, str]:
    """The private and the public PEM text of another pair."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(65537, 2048)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    return private.decode(), public.decode()
