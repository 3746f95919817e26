"""What sifmod knows of EasyBuild: its settings, its robot path, its easyconfigs."""
