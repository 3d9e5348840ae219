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
        "", "Who decides what clients may do: Kafka's AclAuthorizer, or a Python class (module:Class).", use=READ,
    )
    connection_failed_authentication_delay_ms = INT(
        "100", "How long a refused login is held back before its connection ends.",
        low=0, use=READ,
    )
    connections_max_reauth_ms = LONG(
        "0", "How long a SASL session lasts unless its client logs in again; 0: without limit.",
        use=ACCEPTED, needs="SASL",
    )
    delegation_token_expiry_check_interval_ms = LONG(
        "3600000", "How often the controller deletes delegation tokens that have expired.", low=1, use=READ,
    )
    delegation_token_expiry_time_ms = LONG(
        "86400000", "How long a delegation token lets its owner in before it has to be renewed.", low=1, use=READ,
    )
    delegation_token_master_key = PASSWORD(None, "The former name of delegation.token.secret.key.", use=READ)
    delegation_token_max_lifetime_ms = LONG(
        "604800000", "How long a delegation token can be renewed.", low=1, use=READ,
    )
    delegation_token_secret_key = PASSWORD(
        None, "Secret that all brokers share and delegation tokens are made of; none without it.", use=READ
    )
    listener_security_protocol_map = ITEMS(
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "Security protocol of each listener name.", here="PLAINTEXT:PLAINTEXT", use=READ, update=PER_BROKER,
        is_built=True,
    )
    password_encoder_cipher_algorithm = STRING(
        "AES/CBC/PKCS5Padding", "How passwords are encrypted in ZooKeeper; there is no other way.", use=ACCEPTED,
    )
    password_encoder_iterations = INT("4096", "Iterations that make the key for it.", low=1024, use=ACCEPTED)
    password_encoder_key_length = INT("128", "Bits of this key: 128, 192 or 256.", low=8, use=ACCEPTED)
    password_encoder_keyfactory_algorithm = STRING(
        None, "What makes this key; PBKDF2WithHmacSHA512 if not set.", use=ACCEPTED,
    )
    password_encoder_old_secret = PASSWORD(
        None, "The previous secret: passwords encrypted with it are encrypted again at the next start.", use=ACCEPTED,
    )
    password_encoder_secret = PASSWORD(
        None, "Secret that passwords of key stores are encrypted with in ZooKeeper; none can be set without it.",
        use=ACCEPTED,
    )
    sasl_enabled_mechanisms = LIST(
        "GSSAPI", "SASL mechanisms that clients may use.",
        use=ACCEPTED, update=PER_BROKER, needs="SASL",
    )
    sasl_jaas_config = PASSWORD(
        None, "Under listener.name.<listener>.<mechanism>.: the login module that says who may log in.",
        use=ACCEPTED, update=PER_BROKER, needs="SASL",
    )
    sasl_kerberos_principal_to_local_rules = LIST(
        "DEFAULT", "How Kerberos principals become user names; DEFAULT takes the first part of those of the own realm.",
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
        "30", "How far the clocks of the OAuth provider and the broker may be apart.", use=ACCEPTED,
    )
    sasl_oauthbearer_expected_audience = LIST(None, "Audiences of which a token must name one.", use=ACCEPTED)
    sasl_oauthbearer_expected_issuer = STRING(None, "The issuer that a token must name.", use=ACCEPTED)
    sasl_oauthbearer_jwks_endpoint_refresh_ms = LONG(
        "3600000", "How often the keys of the OAuth provider are fetched.", use=ACCEPTED,
    )
    sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms = LONG(
        "10000", "The longest wait after a failure to fetch them.", use=ACCEPTED,
    )
    sasl_oauthbearer_jwks_endpoint_retry_backoff_ms = LONG(
        "100", "The wait after the first failure.", use=ACCEPTED,
    )
    sasl_oauthbearer_jwks_endpoint_url = STRING(
        None, "Where the public keys are with which tokens are verified: https://… or file:///…", use=ACCEPTED,
    )
    sasl_oauthbearer_scope_claim_name = STRING("scope", "Not used: no scope is asked for.", use=ACCEPTED)
    sasl_oauthbearer_sub_claim_name = STRING("sub", "The claim that names the user.", use=ACCEPTED)
    sasl_oauthbearer_token_endpoint_url = STRING(
        None, "Where this broker gets the tokens with which it logs in to others.", use=ACCEPTED,
    )
    sasl_server_callback_handler_class = CLASS(
        None, "Under listener.name.<listener>.<mechanism>.: who looks at logins, one of Kafka's classes or a Python "
        "class, as module:Class.", use=ACCEPTED, needs="SASL", unbuilt=_OF_A_MECHANISM,
    )
    security_inter_broker_protocol = STRING(
        "PLAINTEXT", "The listener through which brokers reach each other, by its name; or inter.broker.listener.name.",
        use=READ,
    )
    ssl_allow_dn_changes = BOOLEAN(
        "false", "Whether a new key store may have a certificate with another subject.", use=ACCEPTED,
    )
    ssl_allow_san_changes = BOOLEAN(
        "false", "Whether the certificate of a new key store may lack a host that the old one has.", use=ACCEPTED,
    )
    ssl_cipher_suites = LIST(
        "", "Cipher suites by Java's names; empty for OpenSSL's choice.",
        use=ACCEPTED, update=PER_BROKER,
    )
    ssl_client_auth = STRING(
        "none", "Whether clients show a certificate: none, requested or required.",
        use=ACCEPTED, update=PER_BROKER, needs="SSL",
    )
    ssl_enabled_protocols = LIST("TLSv1.2,TLSv1.3", "TLS versions.", use=ACCEPTED, update=PER_BROKER)
    ssl_endpoint_identification_algorithm = STRING(
        "https", "Between brokers: empty for no check that a certificate is for the host.",
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
        "DEFAULT", "From the subject of a client's certificate to its user.",
        use=ACCEPTED,
    )
    ssl_truststore_certificates = PASSWORD(
        None, "Authorities in PEM that sign certificates of clients and brokers.",
        use=ACCEPTED, update=PER_LISTENER,
    )
    ssl_truststore_location = STRING(
        None, "File with these authorities: PEM, PKCS12 or JKS.",
        use=ACCEPTED, update=PER_LISTENER,
    )
    ssl_truststore_password = PASSWORD(None, "Password of ssl.truststore.location.", use=ACCEPTED, update=PER_LISTENER)
    ssl_truststore_type = STRING("JKS", "Type of ssl.truststore.location.", use=ACCEPTED, update=PER_LISTENER)
    zookeeper_set_acl = BOOLEAN(
        "false", "Whether only this identity may change the znodes that the broker creates.", use=ACCEPTED,
    )
    zookeeper_ssl_cipher_suites = LIST(
        None, "Cipher suites for TLS 1.2 towards ZooKeeper, by OpenSSL's names.", use=ACCEPTED,
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
        None, "PEM file with the key and the certificates that are shown to ZooKeeper.", use=ACCEPTED,
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
        "false", "Whether everyone may do everything with what no ACL applies to.", use=READ, is_listed=False,
    )
    java_security_auth_login_config = STRING(use=ACCEPTED, is_listed=False)
    super_users = STRING(
        None, "Principals that may do everything, separated by semicolons.", use=READ, is_listed=False,
    )
    zookeeper_auth_digest = STRING(use=ACCEPTED, is_listed=False)
    zookeeper_sasl_client = STRING(use=ACCEPTED, is_listed=False)
    zookeeper_sasl_clientconfig = STRING(use=ACCEPTED, is_listed=False)
