"""The broker keys about security: TLS, SASL, delegation tokens, the authorizer, and connections to ZooKeeper.

They are part of the table in ``broker_keys``.
"""

from kafka_zk.broker.config.broker_key import BOOLEAN, CLASS, INT, ITEMS, LIST, LONG, PASSWORD, STRING, Update, Use

READ, ACCEPTED = Use.READ, Use.ACCEPTED
PER_BROKER, PER_LISTENER = Update.PER_BROKER, Update.PER_LISTENER

_OF_A_MECHANISM = "reads it under listener.name.<listener>.<mechanism>. only"


class SecurityKeys:
    """The base class of ``BrokerKeys``."""

    authorizer_class_name = STRING(
        "", "Authorizer: Kafka's AclAuthorizer, or a Python class (module:Class).", use=READ,
    )
    connection_failed_authentication_delay_ms = INT(
        "100", "How long the response to a failed login is delayed.",
        low=0, use=READ,
    )
    connections_max_reauth_ms = LONG(
        "0", "Maximum length of a SASL session without reauthentication; 0: no limit.",
        use=ACCEPTED, needs="SASL",
    )
    delegation_token_expiry_check_interval_ms = LONG(
        "3600000", "Interval at which the controller deletes expired delegation tokens.", low=1, use=READ,
    )
    delegation_token_expiry_time_ms = LONG(
        "86400000", "How long a delegation token is valid before it must be renewed.", low=1, use=READ,
    )
    delegation_token_master_key = PASSWORD(None, "The former name of delegation.token.secret.key.", use=READ)
    delegation_token_max_lifetime_ms = LONG(
        "604800000", "Maximum lifetime of a delegation token, including renewals.", low=1, use=READ,
    )
    delegation_token_secret_key = PASSWORD(
        None, "Secret of all brokers for delegation tokens; without it, there are no tokens.", use=READ
    )
    listener_security_protocol_map = ITEMS(
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "Security protocol of each listener name.", here="PLAINTEXT:PLAINTEXT", use=READ, update=PER_BROKER,
        is_built=True,
    )
    password_encoder_cipher_algorithm = STRING(
        "AES/CBC/PKCS5Padding", "Cipher for passwords in ZooKeeper; the default is the only one.", use=ACCEPTED,
    )
    password_encoder_iterations = INT("4096", "Iterations of the key derivation.", low=1024, use=ACCEPTED)
    password_encoder_key_length = INT("128", "Length of the key in bits: 128, 192 or 256.", low=8, use=ACCEPTED)
    password_encoder_keyfactory_algorithm = STRING(
        None, "Key derivation function; PBKDF2WithHmacSHA512 if not set.", use=ACCEPTED,
    )
    password_encoder_old_secret = PASSWORD(
        None, "The previous secret: at the next start, passwords encrypted with it are encrypted again.", use=ACCEPTED,
    )
    password_encoder_secret = PASSWORD(
        None, "Secret that encrypts passwords of key stores in ZooKeeper; required for setting them.",
        use=ACCEPTED,
    )
    sasl_enabled_mechanisms = LIST(
        "GSSAPI", "SASL mechanisms that clients may use.",
        use=ACCEPTED, update=PER_BROKER, needs="SASL",
    )
    sasl_jaas_config = PASSWORD(
        None, "Under listener.name.<listener>.<mechanism>.: the login module with the credentials.",
        use=ACCEPTED, update=PER_BROKER, needs="SASL",
    )
    sasl_kerberos_principal_to_local_rules = LIST(
        "DEFAULT", "Rules that map Kerberos principals to users; DEFAULT: the first part, in the default realm.",
        use=ACCEPTED, update=PER_BROKER,
    )
    sasl_kerberos_service_name = STRING(
        None, "The first part of the brokers' Kerberos principals, for logins between brokers.",
        use=ACCEPTED, update=PER_BROKER,
    )
    sasl_login_callback_handler_class = CLASS(
        None, "Under listener.name.<listener>.oauthbearer.: a Python function, as module:function, that gives this "
        "broker the tokens with which it logs in to others.", use=ACCEPTED, needs="SASL", unbuilt=_OF_A_MECHANISM,
    )
    sasl_mechanism_inter_broker_protocol = STRING(
        "GSSAPI", "The SASL mechanism with which brokers log in to each other.",
        use=ACCEPTED, update=PER_BROKER,
    )
    sasl_oauthbearer_clock_skew_seconds = INT(
        "30", "Maximum clock difference to the OAuth provider.", use=ACCEPTED,
    )
    sasl_oauthbearer_expected_audience = LIST(None, "Expected audiences; a token must name one.", use=ACCEPTED)
    sasl_oauthbearer_expected_issuer = STRING(None, "Expected issuer of a token.", use=ACCEPTED)
    sasl_oauthbearer_jwks_endpoint_refresh_ms = LONG(
        "3600000", "Interval at which the keys of the OAuth provider are fetched.", use=ACCEPTED,
    )
    sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms = LONG(
        "10000", "Maximum wait after a failed fetch.", use=ACCEPTED,
    )
    sasl_oauthbearer_jwks_endpoint_retry_backoff_ms = LONG(
        "100", "Wait after the first failed fetch.", use=ACCEPTED,
    )
    sasl_oauthbearer_jwks_endpoint_url = STRING(
        None, "URL of the public keys that verify tokens: https://… or file:///…", use=ACCEPTED,
    )
    sasl_oauthbearer_scope_claim_name = STRING("scope", "Not used: the broker requests no scope.", use=ACCEPTED)
    sasl_oauthbearer_sub_claim_name = STRING("sub", "The claim that names the user.", use=ACCEPTED)
    sasl_oauthbearer_token_endpoint_url = STRING(
        None, "URL from which this broker gets tokens for logins to other brokers.", use=ACCEPTED,
    )
    sasl_server_callback_handler_class = CLASS(
        None, "Under listener.name.<listener>.<mechanism>.: callback that checks logins: one of Kafka's "
        "classes, or a Python class as module:Class.", use=ACCEPTED, needs="SASL", unbuilt=_OF_A_MECHANISM,
    )
    security_inter_broker_protocol = STRING(
        "PLAINTEXT", "Security protocol of the inter-broker listener; alternative: inter.broker.listener.name.",
        use=READ,
    )
    ssl_allow_dn_changes = BOOLEAN(
        "false", "Whether the certificate of a new key store may have another subject.", use=ACCEPTED,
    )
    ssl_allow_san_changes = BOOLEAN(
        "false", "Whether the certificate of a new key store may lack a host of the old one.", use=ACCEPTED,
    )
    ssl_cipher_suites = LIST(
        "", "Cipher suites with Java's names; empty: OpenSSL's defaults.",
        use=ACCEPTED, update=PER_BROKER,
    )
    ssl_client_auth = STRING(
        "none", "Whether clients send a certificate: none, requested or required.",
        use=ACCEPTED, update=PER_BROKER, needs="SSL",
    )
    ssl_enabled_protocols = LIST("TLSv1.2,TLSv1.3", "TLS versions.", use=ACCEPTED, update=PER_BROKER)
    ssl_endpoint_identification_algorithm = STRING(
        "https",
        "How brokers check the host name in the certificate of another broker; empty: not at all.",
        use=ACCEPTED, update=PER_BROKER,
    )
    ssl_key_password = PASSWORD(
        None, "Password of the private key, if it is encrypted.",
        use=ACCEPTED, update=PER_LISTENER,
    )
    ssl_keystore_certificate_chain = PASSWORD(
        None, "Certificates in PEM, with ssl.keystore.key.",
        use=ACCEPTED, update=PER_LISTENER,
    )
    ssl_keystore_key = PASSWORD(None, "Private key in PEM.", use=ACCEPTED, update=PER_LISTENER)
    ssl_keystore_location = STRING(
        None, "File with the key and the certificates of the listener: PEM, PKCS12 or JKS.",
        use=ACCEPTED, update=PER_LISTENER,
    )
    ssl_keystore_password = PASSWORD(
        None, "Password of ssl.keystore.location (PKCS12, JKS).",
        use=ACCEPTED, update=PER_LISTENER,
    )
    ssl_keystore_type = STRING("JKS", "Type of ssl.keystore.location.", use=ACCEPTED, update=PER_LISTENER)
    ssl_principal_mapping_rules = STRING(
        "DEFAULT", "Rules that map the subject of a client's certificate to a user.",
        use=ACCEPTED,
    )
    ssl_truststore_certificates = PASSWORD(
        None, "Authorities in PEM that sign certificates of clients and brokers.",
        use=ACCEPTED, update=PER_LISTENER,
    )
    ssl_truststore_location = STRING(
        None, "File with the authorities that sign certificates of clients and brokers: PEM, PKCS12 or JKS.",
        use=ACCEPTED, update=PER_LISTENER,
    )
    ssl_truststore_password = PASSWORD(None, "Password of ssl.truststore.location.", use=ACCEPTED, update=PER_LISTENER)
    ssl_truststore_type = STRING("JKS", "Type of ssl.truststore.location.", use=ACCEPTED, update=PER_LISTENER)
    zookeeper_set_acl = BOOLEAN(
        "false", "Whether only this broker's identity may change the znodes that it creates.", use=ACCEPTED,
    )
    zookeeper_ssl_cipher_suites = LIST(
        None, "Cipher suites for TLS 1.2 with ZooKeeper, with OpenSSL's names.", use=ACCEPTED,
    )
    zookeeper_ssl_client_enable = BOOLEAN("false", "Whether to connect to ZooKeeper over TLS.", use=ACCEPTED)
    zookeeper_ssl_crl_enable = BOOLEAN("false", use=ACCEPTED)
    zookeeper_ssl_enabled_protocols = LIST(
        None, "TLS versions for ZooKeeper; zookeeper.ssl.protocol if not set.", use=ACCEPTED,
    )
    zookeeper_ssl_endpoint_identification_algorithm = STRING(
        "HTTPS", "Empty: the host name in a certificate is not checked.", use=ACCEPTED,
    )
    zookeeper_ssl_keystore_location = STRING(
        None, "PEM file with the key and the certificates for ZooKeeper.", use=ACCEPTED,
    )
    zookeeper_ssl_keystore_password = PASSWORD(
        None, "Password of the key in zookeeper.ssl.keystore.location.", use=ACCEPTED,
    )
    zookeeper_ssl_keystore_type = STRING(use=ACCEPTED)
    zookeeper_ssl_ocsp_enable = BOOLEAN("false", use=ACCEPTED)
    zookeeper_ssl_protocol = STRING(
        "TLSv1.2", "The only TLS version for ZooKeeper; 1.2 and later if not set.", use=ACCEPTED,
    )
    zookeeper_ssl_truststore_location = STRING(
        None, "PEM file with the authorities that sign ZooKeeper's certificates.", use=ACCEPTED,
    )
    zookeeper_ssl_truststore_password = PASSWORD(use=ACCEPTED)
    zookeeper_ssl_truststore_type = STRING(use=ACCEPTED)
    allow_everyone_if_no_acl_found = BOOLEAN(
        "false", "Whether everyone may access a resource to which no ACL applies.", use=READ, is_listed=False,
    )
    java_security_auth_login_config = STRING(use=ACCEPTED, is_listed=False)
    super_users = STRING(
        None, "Principals that may do everything, separated by semicolons.", use=READ, is_listed=False,
    )
    zookeeper_auth_digest = STRING(use=ACCEPTED, is_listed=False)
    zookeeper_sasl_client = STRING(use=ACCEPTED, is_listed=False)
    zookeeper_sasl_clientconfig = STRING(use=ACCEPTED, is_listed=False)
