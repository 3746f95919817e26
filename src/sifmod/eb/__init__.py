"""What sifmod knows of EasyBuild: its folders, its robot path, its easyconfigs."""
